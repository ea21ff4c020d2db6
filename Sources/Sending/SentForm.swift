// Selects the content coding in which stored content is sent to a client.

import CachePolicy
import Forwarding
import HTTPCore

/// The form in which a client receives stored content.
public enum SentForm: Sendable, Equatable {
    /// As stored: with its coding, if it has one.
    case asStored
    /// Without its stored coding.
    case decoded
    /// With gzip, which the stored content does not have.
    case gzipped
}

public struct SentFormFacts: Sendable {
    /// The coding of the stored content.
    var coding: ContentCoding
    /// Length of the content without its coding, in bytes.
    var contentBytes: Int
    var flags: StoredFlags
    var compression: Compression
    /// Minimum length in bytes from which content without a coding is compressed.
    var compressFromBytes: Int
    var isText: Bool
    var accepted: AcceptedCodings
    /// Whether the client forbids transformations (no-transform, RFC 9111 §5.2.1.6).
    var asksForPlain: Bool

    /// Whether this response may be sent with a content coding to any client.
    private var mayBeCoded: Bool {
        // Content that must stay as the upstream coded it is excluded.
        guard flags.isDisjoint(with: .unchanging) else { return false }
        return flags.contains(.cameCoded) || compression.mayCode(isOpen: flags.contains(.isOpen))
    }

    private var isWorthCoding: Bool { compression.covers(contentBytes, from: compressFromBytes) && isText }

    /// Whether the form depends on the client. Every response then has a Vary field (RFC 9110 §12.5.5).
    public var isNegotiated: Bool { mayBeCoded && (coding != .identity || isWorthCoding) }

    /// Returns the facts for content without a coding that is passed on while it arrives and may be compressed; nil if it must not be.
    public static func passed(
        _ response: ResponseHead, contentBytes: Int, to request: RequestHead, _ compression: Compression, from compressFromBytes: Int,
        isOpen: () -> Bool
    ) -> SentFormFacts? {
        guard ContentCoding(response.fields) == .identity, !response.status.forbidsContent,
            !response.fields.contains(.contentRange), MediaType(of: response.fields)?.isText == true,
            !ResponseCacheControl.forbidsTransforming(response.fields), !isForAtOnce(response.fields)
        else { return nil }
        return SentFormFacts(
            coding: .identity, contentBytes: contentBytes, flags: isOpen() ? .isOpen : [], compression: compression,
            compressFromBytes: compressFromBytes, isText: true, accepted: AcceptedCodings(request.fields),
            asksForPlain: request.contains(.cacheControl) && RequestCacheControl(request.fields).noTransform)
    }

    /// Whether each piece must reach the client at once. Some clients decode events only at the end, and a server that disables nginx's
    /// buffering requires immediate delivery.
    private static func isForAtOnce(_ fields: Fields) -> Bool {
        MediaType(of: fields)?.isEssence("text/event-stream") == true || StreamedResponse.isUnbuffered(fields)
    }

    public var form: SentForm {
        let mayHaveCoding = mayBeCoded && !asksForPlain
        if coding != .identity, mayHaveCoding, accepted.accept(coding) { return .asStored }
        if mayHaveCoding, accepted.contains(.gzip), isWorthCoding || coding != .identity { return .gzipped }
        return coding == .identity ? .asStored : .decoded
    }
}

// In which form stored content goes out: a decision, made anew for each client.

import CachePolicy
import Forwarding
import HTTPCore

/// In which form a client gets stored content.
public enum SentForm: Sendable, Equatable {
    /// As it lies in the store: with its coding, where it has one there.
    case asStored
    /// Without the coding that it has there.
    case decoded
    /// With gzip, which it does not have there.
    case gzipped
}

/// What that goes by.
public struct SentFormFacts: Sendable {
    /// The content's, as it lies in the store.
    var coding: ContentCoding
    /// Without it.
    var contentBytes: Int
    var flags: StoredFlags
    var compression: Compression
    /// Shorter content is sent without a coding, where it has none.
    var compressFromBytes: Int
    var isText: Bool
    var accepted: AcceptedCodings
    /// RFC 9111 §5.2.1.6: some clients ask for content as it is.
    var asksForPlain: Bool

    /// Whether this response may go out with a coding at all, to whomever.
    private var mayBeCoded: Bool {
        // What lies there as the upstream coded it, and must, is for those who allow that.
        guard flags.isDisjoint(with: .unchanging) else { return false }
        return flags.contains(.cameCoded) || compression.mayCode(isOpen: flags.contains(.isOpen))
    }

    private var isWorthCoding: Bool { compression.covers(contentBytes, from: compressFromBytes) && isText }

    /// Whether it depends on the client: then every response says so (RFC 9110 §12.5.5).
    public var isNegotiated: Bool { mayBeCoded && (coding != .identity || isWorthCoding) }

    /// Of content that is passed on as it came, without a coding: it may get gzip.
    public static func passed(
        _ response: ResponseHead, contentBytes: Int, to request: RequestHead, _ compression: Compression, from compressFromBytes: Int,
        isOpen: () -> Bool
    ) -> SentFormFacts? {
        guard compression.covers(contentBytes, from: compressFromBytes), ContentCoding(response.fields) == .identity,
            !response.status.forbidsContent,
            !response.fields.contains(.contentRange), MediaType(of: response.fields)?.isText == true,
            !ResponseCacheControl.forbidsTransforming(response.fields), !isForAtOnce(response.fields)
        else { return nil }
        return SentFormFacts(
            coding: .identity, contentBytes: contentBytes, flags: isOpen() ? .isOpen : [], compression: compression,
            compressFromBytes: compressFromBytes, isText: true, accepted: AcceptedCodings(request.fields),
            asksForPlain: request.contains(.cacheControl) && RequestCacheControl(request.fields).noTransform)
    }

    /// Some clients decode events only when all of them are there, and whoever switches nginx's buffering off wants each piece at once.
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

// The requests that the server itself responds to: own pages (/metrics, /healthz, /readyz) and ACME challenges (RFC 8555).

import Downstream
import HTTPCore

public enum OwnPage: Sendable {
    case metrics, healthz, readyz

    /// The query and a final slash are ignored: probes and scrapers send `/readyz?verbose=1` and `/metrics/`.
    /// nil if the request is for another target.
    public init?(_ head: RequestHead) {
        let bytes = head.target
        // Hot path: the second byte of nearly all targets decides.
        guard bytes.count >= 7 else { return nil }
        switch bytes[bytes.startIndex + 1] {
        case UInt8(ascii: "m"), UInt8(ascii: "h"), UInt8(ascii: "r"): break
        default: return nil
        }
        guard head.method.isRead else { return nil }
        // At most `/metrics/` and the beginning of a query.
        var path = bytes.prefix(10).prefix { $0 != UInt8(ascii: "?") }
        if path.last == UInt8(ascii: "/") { path.removeLast() }
        if path.elementsEqual("/metrics".utf8) {
            self = .metrics
        } else if path.elementsEqual("/healthz".utf8) {
            self = .healthz
        } else if path.elementsEqual("/readyz".utf8) {
            self = .readyz
        } else {
            return nil
        }
    }
}

/// Responds to requests for the proxy's own pages.
public protocol OwnPageSource: AnyObject {
    /// Responds at once, or returns the exchange that will.
    func respond(
        with page: OwnPage, to head: RequestHead, on stream: any ClientStream, of entry: RequestEntry
    ) -> (any ClientExchange)?
}

/// Token of an ACME challenge: the part of the path after `/.well-known/acme-challenge/`.
public enum AcmeToken {
    private static let path: StaticString = "/.well-known/acme-challenge/"
    private static let limitBytes = 256

    /// Returns nil if the request is no ACME challenge. A token consists of letters, digits, - and _ (RFC 8555 §8.3), so it cannot name a
    /// file outside the directory.
    static func of(_ head: RequestHead) -> String? {
        let bytes = head.target
        guard bytes.count > path.utf8CodeUnitCount, bytes.count <= limitBytes, head.method.isRead,
            bytes.span.extracting(..<path.utf8CodeUnitCount).equals(path)
        else { return nil }
        let token = bytes.dropFirst(path.utf8CodeUnitCount)
        let isToken = token.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        return isToken ? String(decoding: token, as: UTF8.self) : nil
    }
}

/// Responds to ACME challenges with files that an ACME client has written.
public protocol OwnFileSource: AnyObject {
    func respond(with token: String, to head: RequestHead, on stream: any ClientStream, of entry: RequestEntry) -> any ClientExchange
}

/// Sources of the responses that Cistern itself generates.
public struct OwnSources {
    /// nil if the proxy's own pages are served on separate addresses.
    let pages: (any OwnPageSource)?
    /// nil if no directory for ACME challenges is configured.
    let challenges: (any OwnFileSource)?

    public init(_ pages: (any OwnPageSource)?, _ challenges: (any OwnFileSource)?) { (self.pages, self.challenges) = (pages, challenges) }
}

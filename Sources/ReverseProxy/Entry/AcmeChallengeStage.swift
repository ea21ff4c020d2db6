// The stage `acmeChallenge`: recognizes requests for ACME challenges (RFC 8555). The server responds to them with files that an ACME client
// has written.

import Downstream
import HTTPCore

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

extension RequestEntry {
    func acmeChallenge(_ request: Admitted, on stream: any ClientStream) throws(StageEnd) {
        guard let challenges = own.challenges, let token = AcmeToken.of(request.head) else { return }
        throw StageEnd(challenges.respond(with: token, to: request.head, on: stream, of: self))
    }
}

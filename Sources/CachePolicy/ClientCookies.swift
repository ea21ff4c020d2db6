// Predicts which credential cookies a client sends after a response (RFC 6265 §5.2, §5.3). Handles only unambiguous cases; otherwise there
// is no result, so that no other client is mistaken for this one.

import HTTPCore

public enum ClientCookies {
    /// Maximum number of Set-Cookie fields to examine; a response with more is ambiguous.
    private static let fieldLimit = 64

    /// Returns the counted cookies, ordered by name, of the client's next request after this response. nil if they are ambiguous, or
    /// unchanged.
    /// - Parameters:
    ///   - sent: cookies of the request.
    ///   - path: path of the request; a cookie for another path is not sent with it.
    ///   - now: seconds since 1970.
    public static func after(
        _ sent: [CredentialCookies.Pair], _ response: Fields, path: ArraySlice<UInt8>, now: Int64, _ cookies: CredentialCookies
    ) -> [CredentialCookies.Pair]? {
        let lines = response.all(.setCookie)
        guard !lines.isEmpty, lines.count <= fieldLimit, hasDistinctNames(sent) else { return nil }
        var kept = sent
        for line in lines {
            guard let set = SetCookie(line, now: now) else { return nil }
            guard cookies.isCounted(set.pair), set.isFor(path) else { continue }
            kept.removeAll { $0.name.elementsEqual(set.pair.name) }
            if !set.isRemoval { kept.append(set.pair) }
        }
        guard kept.count <= CredentialCookies.pairLimit else { return nil }
        CredentialCookies.sort(&kept)
        return kept == sent ? nil : kept
    }

    /// If a name occurs twice, the request does not show which cookie the response replaces: paths and domains decide that.
    private static func hasDistinctNames(_ sorted: [CredentialCookies.Pair]) -> Bool {
        zip(sorted, sorted.dropFirst()).allSatisfy { !$0.name.elementsEqual($1.name) }
    }
}

/// One Set-Cookie field.
private struct SetCookie {
    let pair: CredentialCookies.Pair
    var isRemoval = false
    private var path: ArraySlice<UInt8>?

    init?(_ line: ArraySlice<UInt8>, now: Int64) {
        let parts = line.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        guard let first = parts.first, let pair = CredentialCookies.pair(first.trimmed) else { return nil }
        self.pair = pair
        var expires: Int64?
        var maxAge: ArraySlice<UInt8>?
        for part in parts.dropFirst() {
            let equals = part.firstIndex(of: UInt8(ascii: "=")) ?? part.endIndex
            let name = part[..<equals].trimmed
            let value = equals < part.endIndex ? part[(equals + 1)...].trimmed : []
            if name.equalsIgnoringCase("expires") { expires = HTTPDate.parse(value, now: now) }
            if name.equalsIgnoringCase("max-age") { maxAge = value }
            if name.equalsIgnoringCase("path") { path = value.first == UInt8(ascii: "/") ? value : nil }
        }
        // §5.3: Max-Age takes precedence over Expires; a value of zero or less is in the past.
        if let maxAge, let last = maxAge.last, last.isASCIIDigit {
            isRemoval = maxAge.first == UInt8(ascii: "-") || maxAge.allSatisfy { $0 == UInt8(ascii: "0") }
        } else if let expires {
            isRemoval = expires <= now
        }
    }

    /// Path matching (§5.1.4).
    func isFor(_ requestPath: ArraySlice<UInt8>) -> Bool {
        guard let path, !requestPath.elementsEqual(path) else { return true }
        guard requestPath.starts(with: path) else { return false }
        return path.last == UInt8(ascii: "/") || requestPath.dropFirst(path.count).first == UInt8(ascii: "/")
    }
}

// What an unsafe request makes invalid (RFC 9111 §4.4).

import HTTPCore

package enum Invalidation {
    /// The targets whose stored responses are to be dropped after this answer: the request's own, and those that Location and
    /// Content-Location name on the same origin. Empty where nothing is.
    /// - Parameter origin: scheme and authority of the upstream in lower case.
    package static func targets(method: Method, target: ArraySlice<UInt8>, response: ResponseHead, origin: [UInt8]) -> [[UInt8]] {
        guard !method.isSafe, response.status.isSuccessful || response.status.isRedirection else { return [] }
        var targets = [Array(target)]
        for field in [KnownField.location, .contentLocation] {
            if let value = response.fields.first(field), let path = path(of: value, origin: origin), !targets.contains(path) {
                targets.append(path)
            }
        }
        return targets
    }

    /// Path and query of a URI reference on the same origin. Relative paths are left alone: resolving them is worth no mistake.
    private static func path(of reference: ArraySlice<UInt8>, origin: [UInt8]) -> [UInt8]? {
        var rest = reference
        if rest.starts(with: origin, by: { $0.asciiLowercased == $1 }) { rest = rest.dropFirst(origin.count) }
        guard rest.first == UInt8(ascii: "/"), rest.dropFirst().first != UInt8(ascii: "/") else { return nil }
        return Array(rest.prefix { $0 != UInt8(ascii: "#") })
    }
}

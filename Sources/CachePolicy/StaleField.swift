// Cistern-Stale: tells an app that a response is old, and why. An Item of RFC 9651: seconds since the upstream confirmed the response, with
// the parameter `reason`, as in `312; reason=connection_refused`.

import HTTPCore

public enum StaleField {
    /// Reason of a response that permits serving during revalidation (RFC 5861 §3).
    public static let whileRevalidating = "stale_while_revalidate"
    /// Reason of a response that the request accepts stale (`max-stale`).
    public static let accepted = "max_stale"

    /// Appends the field.
    /// - Parameters:
    ///   - age: age in seconds.
    ///   - reason: cause of the rescue, or why a stale response is served. A token of RFC 9651 §3.3.4.
    ///   - isExposed: whether scripts of other origins may read the field, if they may read the response.
    public static func append(age: Int64, reason: String, isExposed: Bool, to lines: inout [UInt8]) {
        lines.append("Cistern-Stale: ")
        lines.append(decimal: Int(max(age, 0)))
        lines.append("; reason=")
        lines += reason.utf8
        lines.append(isExposed ? exposure : "\r\n")
    }

    /// Appends the field with the value that a Cistern behind this one has sent.
    public static func append(_ value: ArraySlice<UInt8>, isExposed: Bool, to lines: inout [UInt8]) {
        lines.append("Cistern-Stale: ")
        lines += value
        lines.append(isExposed ? exposure : "\r\n")
    }

    /// The line's end, and a field that lets scripts of other origins read the line's field.
    private static let exposure: StaticString = "\r\nAccess-Control-Expose-Headers: Cistern-Stale\r\n"

    /// Returns the value in a response of the upstream that is itself a Cistern. nil if the field is absent, has another form, or differs
    /// from Age: an upstream can only repeat what Age says.
    public static func ofUpstream(_ response: Fields) -> ArraySlice<UInt8>? {
        guard let value = response.only(.cisternStale), let age = response.only(.age), !age.isEmpty, age.allSatisfy(\.isASCIIDigit),
            value.starts(with: age)
        else { return nil }
        let rest = value.dropFirst(age.count)
        let name = Array("; reason=".utf8)
        let reason = rest.dropFirst(name.count)
        guard rest.starts(with: name), (1...reasonLimit).contains(reason.count), reason.allSatisfy(isReasonByte) else { return nil }
        return value
    }

    private static let reasonLimit = 64

    private static func isReasonByte(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || byte.isASCIIDigit || byte == UInt8(ascii: "_")
    }
}

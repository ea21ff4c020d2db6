// Cookies that identify a user. Two requests have equal partitions if and only if a simple reference parser finds equal identifying cookies
// in both. Other cookies make no difference.

import CachePolicy
import HTTPCore

enum CookiesProperty {
    private static let settings = CachePolicySettings()
    private static let cookies = CredentialCookies(settings)

    /// Two requests separated by a line with one `*`. Every other line is a value of Cookie.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let lines = bytes.split(separator: 0x0a).filter { $0.allSatisfy(isFieldValueByte) }.map { Array($0.trimmed) }
        let requests = lines.split(separator: [UInt8(ascii: "*")], maxSplits: 1, omittingEmptySubsequences: false).map(Array.init)
        for request in requests { try checkAdditions(request) }
        guard requests.count == 2 else { return }
        let areSame = parts(requests[0]) == parts(requests[1])
        guard let left = Reading(requests[0]), let right = Reading(requests[1]) else {
            // If one of them is ambiguous, all of its bytes count.
            try expect(!areSame || requests[0] == requests[1], "ambiguous Cookie fields share a partition")
            return
        }
        try expect(areSame == (left == right), areSame ? "one partition for two meanings" : "two partitions for one meaning")
    }

    private static func fields(_ lines: [[UInt8]]) -> Fields {
        var fields = Fields()
        for line in lines { fields.append(.cookie, line) }
        return fields
    }

    private static func parts(_ lines: [[UInt8]]) -> [UInt8] {
        var parts: [UInt8] = []
        cookies.append(of: fields(lines), to: &parts)
        return parts
    }

    private static func checkAdditions(_ lines: [[UInt8]]) throws(Violation) {
        let known = Array("session=1".utf8)
        try expect(parts(lines) != parts(lines + [known]), "a credential cookie does not change the partition")
        guard cookies.pairs(of: fields(lines)) != nil, lines.count < CredentialCookies.pairLimit / 64 else { return }
        let nothing = Array("_ga=GA1.2.3; AWSALB=\"x\"".utf8)
        guard cookies.pairs(of: fields(lines + [nothing])) != nil else { return }
        try expect(parts(lines) == parts([nothing] + lines), "an ignored cookie changes the partition")
    }
}

/// Name and value of each cookie that counts, from a slow reference parser; nil if the cookies are ambiguous.
private struct Reading: Equatable {
    private var values: [String: [String]] = [:]

    init?(_ lines: [[UInt8]]) {
        var count = 0
        // One character per byte.
        for line in lines.map({ String(String.UnicodeScalarView($0.map { Unicode.Scalar($0) })) }) {
            for piece in line.split(separator: ";") {
                let text = Self.trim(piece)
                if text.isEmpty { continue }
                count += 1
                let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard count <= CredentialCookies.pairLimit, sides.count == 2 else { return nil }
                let (name, value) = (Self.trim(sides[0]), Self.trim(sides[1]))
                guard !name.isEmpty, !name.hasPrefix("$"), Self.isFree(of: " \t\"\\,", name) else { return nil }
                let isQuoted = value.count >= 2 && value.hasPrefix("\"") && value.hasSuffix("\"")
                let content = isQuoted ? value.dropFirst().dropLast() : value[...]
                guard !content.contains("\"") else { return nil }
                if Self.saysNothing(name), Self.isFree(of: " \t,\\", String(content)) { continue }
                values[name, default: []].append(value)
            }
        }
    }

    /// Whether the text is ASCII without any of these characters.
    private static func isFree(of some: String, _ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { $0.isASCII && !some.unicodeScalars.contains($0) }
    }

    private static func trim(_ text: Substring) -> String {
        let isSpace: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        var text = text.drop(while: isSpace)
        while let last = text.last, isSpace(last) { text.removeLast() }
        return String(text)
    }

    private static func saysNothing(_ name: String) -> Bool {
        CachePolicySettings().credentials.ignoredCookies.contains { pattern in
            pattern.hasSuffix("*") ? name.hasPrefix(pattern.dropLast()) : name == pattern
        }
    }
}

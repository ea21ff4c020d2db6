// Replaces secrets by placeholders, so that an archive can be reviewed and stored next to tests. Secrets in requests to a replay are
// replaced too before the comparison, so any credential matches the recorded one.

import CachePolicy
import HTTPCore
import JSON

public struct SecretRedaction: Sendable {
    /// Request fields that hold credentials.
    private let fields: CredentialNames
    /// Additional names of fields, arguments and content members that hold secrets, normalized without `-`, `_` and case.
    private var others: Set<String>

    public static let placeholder = SecretNames.redaction

    /// - Parameters:
    ///   - fields: additional credential fields, in lower case (`CredentialNames`).
    ///   - names: additional fields, arguments and content members that hold secrets.
    public init(fields: [String], names: [String] = []) {
        self.fields = CredentialNames(fields + names.map { $0.lowercased() })
        others = Set(names.map { Self.plain($0.utf8) })
    }

    /// Adds the names of fields, arguments and members that have the placeholder as recorded value.
    public mutating func addNames(of exchange: ArchivedExchange) {
        let placeholder = Array(Self.placeholder.utf8)[...]
        for fields in [exchange.requestFields, exchange.response.fields] {
            for index in 0..<fields.count where fields.value(at: index).elementsEqual(placeholder) {
                let name = fields.name(at: index)
                if !isSecret(field: name) { others.insert(Self.plain(name)) }
            }
        }
        addNames(ofMembers: exchange.content, exchange.response.fields)
        let target = Array(exchange.url.utf8)
        if let question = target.firstIndex(of: UInt8(ascii: "?")) { addNames(ofArguments: target[(question + 1)...], placeholder) }
        let media = MediaType(of: exchange.requestFields)
        if media?.isForm == true { return addNames(ofArguments: exchange.requestContent[...], placeholder) }
        addNames(ofMembers: exchange.requestContent, exchange.requestFields)
    }

    private mutating func addNames(ofMembers content: [UInt8], _ fields: Fields) {
        guard MediaType(of: fields)?.isJSON == true else { return }
        Self.walk(content, only: Array(Self.placeholder.utf8)) { name, _ in
            if !isSecret(member: name) { others.insert(Self.plain(name)) }
        }
    }

    private mutating func addNames(ofArguments query: ArraySlice<UInt8>, _ placeholder: ArraySlice<UInt8>) {
        for argument in query.split(separator: UInt8(ascii: "&")) {
            guard let equals = argument.firstIndex(of: UInt8(ascii: "=")), argument[(equals + 1)...].elementsEqual(placeholder) else {
                continue
            }
            if !isSecret(argument: argument[..<equals]) { others.insert(Self.plain(argument[..<equals])) }
        }
    }

    // MARK: Names

    private static func plain(_ name: some Collection<UInt8>) -> String {
        SecretNames.plain(PercentCoding.decode(name, plusIsSpace: true).map { Array($0.utf8) } ?? Array(name))
    }

    func isSecret(argument name: some Collection<UInt8>) -> Bool {
        if SecretNames.isSecret(argument: name) || others.contains(Self.plain(name)) { return true }
        guard name.contains(UInt8(ascii: "%")) else { return false }
        return PercentCoding.decode(name, plusIsSpace: true).map { SecretNames.isSecret(argument: $0.utf8) } ?? true
    }

    /// Returns whether a content member holds a secret. Fewer names count than for arguments, because `code`, `state` and `key` are common
    /// members.
    private func isSecret(member name: [UInt8]) -> Bool {
        SecretNames.isSecret(member: name) || others.contains(Self.plain(name))
    }

    /// Whether a request field holds credentials.
    public func isSecret(field name: some Collection<UInt8>) -> Bool {
        let lower = String(decoding: name.map(\.asciiLowercased), as: UTF8.self)
        if SecretNames.isSecret(field: lower) || !others.isEmpty && others.contains(Self.plain(lower.utf8)) { return true }
        let match = fields.match(Array(name).span)
        return match == .whole || match == .ending && !SecretNames.asksForPage(name)
    }

    // MARK: Covering

    /// - Parameter target: path and query, or a whole URI. Some logins pass tokens after the `#` (RFC 6749 §4.2.2).
    public func redact(target: some Collection<UInt8>) -> [UInt8] {
        let bytes = Array(target)
        let mark = bytes.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        let path = SecretNames.redactedBytes(bytes[..<(mark ?? bytes.endIndex)])
        guard let mark else { return path }
        let fragment = bytes[(mark + 1)...].firstIndex(of: UInt8(ascii: "#")) ?? bytes.endIndex
        let redacted = path + [bytes[mark]] + redact(arguments: bytes[(mark + 1)..<fragment])
        return fragment == bytes.endIndex ? redacted : redacted + [UInt8(ascii: "#")] + redact(arguments: bytes[(fragment + 1)...])
    }

    private func redact(arguments query: ArraySlice<UInt8>) -> [UInt8] {
        let arguments = query.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false).map { argument -> [UInt8] in
            guard let equals = argument.firstIndex(of: UInt8(ascii: "=")), isSecret(argument: argument[..<equals]) else {
                return Array(argument)
            }
            return Array(argument[...equals]) + Array(Self.placeholder.utf8)
        }
        return Array(arguments.joined(separator: [UInt8(ascii: "&")]))
    }

    /// Replaces secrets in the fields of a request or a response. Keeps the scheme of Authorization, and names and attributes of cookies.
    public func redact(_ fields: Fields) -> Fields {
        var redacted = Fields()
        for index in 0..<fields.count {
            let (name, value) = (fields.name(at: index), fields.value(at: index))
            redacted.append(name: name.span, value: redact(value, of: String(decoding: name, as: UTF8.self).lowercased()).span)
        }
        return redacted
    }

    /// Fields with a URI as value.
    private static let linking: Set<String> = ["location", "content-location", "referer"]
    /// Fields that contain URIs among other data.
    private static let mentioning: Set<String> = ["link", "refresh"]

    /// Whether the value only says whether something applies, as in `Access-Control-Allow-Credentials: true`.
    static func isFlag(_ value: ArraySlice<UInt8>) -> Bool { value.equalsIgnoringCase("true") || value.equalsIgnoringCase("false") }

    private func redact(_ value: ArraySlice<UInt8>, of name: String) -> [UInt8] {
        guard isSecret(field: name.utf8), !Self.isFlag(value) else {
            if Self.mentioning.contains(name) { return LinkRedaction(self, isForDisplay: false).redact(value) }
            return Self.linking.contains(name) ? redact(target: value) : Array(value)
        }
        let placeholder = Array(Self.placeholder.utf8)
        switch name {
        case "authorization", "proxy-authorization":
            guard let space = value.firstIndex(of: 0x20) else { return placeholder }
            return Array(value[...space]) + placeholder
        case "set-cookie":
            guard let equals = value.firstIndex(of: UInt8(ascii: "=")) else { return placeholder }
            let attributes = value.firstIndex(of: UInt8(ascii: ";")).map { value[$0...] } ?? []
            // Without an equals sign before the first `;`, the cookie has no name.
            guard attributes.isEmpty || equals < attributes.startIndex else { return placeholder }
            return Array(value[...equals]) + placeholder + Array(attributes)
        default: return placeholder
        }
    }

    /// Replaces secrets in JSON and forms. Content of other types is returned unchanged.
    public func redact(content: [UInt8], type: MediaType?) -> [UInt8] {
        if type?.isForm == true { return redact(arguments: content[...]) }
        guard type?.isJSON == true else { return content }
        var redacted: [UInt8] = []
        var copied = 0
        Self.walk(content) { name, value in
            guard isSecret(member: name), !value.isEmpty else { return }
            redacted += content[copied..<value.lowerBound] + Array(Self.placeholder.utf8)
            copied = value.upperBound
        }
        return copied == 0 ? content : redacted + content[copied...]
    }

    /// Calls `take` with the name and the range of each member with a text as its value.
    /// - Parameter only: the value of the members; nil for any text.
    private static func walk(_ content: [UInt8], only: [UInt8]? = nil, _ take: ([UInt8], Range<Int>) -> Void) {
        guard JSONTextChecker.check(content.span) == .valid else { return }
        var name: Range<Int>?
        JSONWalk.through(content.span) { token, meaning in
            switch token {
            case .name(let range): name = range
            case .string(let range):
                if let member = name, only.map({ content[range].elementsEqual($0) }) ?? true { take(meaning(member), range) }
                name = nil
            case .beginObject, .endObject, .beginArray, .endArray, .number, .literal: name = nil
            }
            return true
        }
    }
}

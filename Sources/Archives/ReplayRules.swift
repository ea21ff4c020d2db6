// Parts of requests that a replay ignores, and values that it adapts in responses: dates, and values that a response repeats from its
// request.

import CachePolicy
import HTTPCore
import JSON

public struct ReplayRules: Sendable {
    /// A sentence about a wrong value.
    public struct Mistake: Error, Equatable, CustomStringConvertible {
        public let description: String
    }

    /// Ignored arguments of targets and forms; nil if there are none.
    private(set) var arguments: ArgumentRules?
    /// Ignored request fields in lower case; `*` for all.
    private var fields: Set<String> = []
    /// Ignored values in JSON content.
    private(set) var pointers: [JSONPointer] = []
    private(set) var ignoresContent = false
    private(set) var echoes: [EchoSource] = []
    /// Whether dates move by the age of the recording.
    public private(set) var shiftsDates = false
    /// Seconds or milliseconds since 1970 that move with the dates.
    private(set) var epochs: [JSONPointer] = []

    /// A value of requests that responses may repeat.
    enum EchoSource: Sendable, Equatable {
        /// Decoded name of an argument.
        case argument(String)
        case pointer(JSONPointer)
    }

    /// Maximum number of names and pointers together, because each one costs a pass over the content.
    public static let limit = 64

    public init() {}

    /// - Parameters:
    ///   - ignore: `arguments=NAME,…`, `fields=NAME,…` or `body=POINTER`, where `*` stands for all.
    ///   - echo: JSON pointers of request content, and names of arguments. These values are also ignored.
    ///   - shiftsDates: whether dates in responses move by the age of the recording.
    ///   - epochs: JSON pointers of numbers in responses that count seconds or milliseconds since 1970.
    public init(ignore: [String], echo: [String], shiftsDates: Bool = false, epochs: [String] = []) throws(Mistake) {
        var names: [String] = []
        for text in ignore {
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let values = (parts.count > 1 ? parts[1] : "").split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            switch parts[0] {
            case "body" where parts.count > 1:
                if parts[1] == "*" { ignoresContent = true } else { pointers.append(try Self.pointer(parts[1], "--ignore body=")) }
            case "arguments" where !values.contains(""): names += values
            case "fields" where values.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(isTokenByte) }):
                fields.formUnion(values.map { $0.lowercased() })
            default:
                throw Mistake(
                    description: "--ignore \(text): give arguments=NAME,NAME, fields=NAME,NAME or body=/POINTER; * stands for all")
            }
        }
        for text in echo {
            guard text.hasPrefix("/") else {
                guard !text.isEmpty, !text.contains("*") else {
                    throw Mistake(description: "--echo \(text): give a JSON pointer such as /requestId, or the name of one argument")
                }
                echoes.append(.argument(text))
                names.append(text)
                continue
            }
            let pointer = try Self.pointer(text, "--echo ")
            echoes.append(.pointer(pointer))
            pointers.append(pointer)
        }
        for text in epochs {
            let pointer = try Self.pointer(text, "--shift-epoch ")
            guard !self.epochs.contains(pointer) else { throw Mistake(description: "--shift-epoch \(text) is given twice") }
            self.epochs.append(pointer)
        }
        guard self.epochs.isEmpty || shiftsDates else { throw Mistake(description: "--shift-epoch needs --shift-dates") }
        guard names.count + fields.count + pointers.count + self.epochs.count <= Self.limit else {
            throw Mistake(description: "--ignore, --echo and --shift-epoch name more than \(Self.limit) parts; * stands for all")
        }
        self.shiftsDates = shiftsDates
        guard !names.isEmpty else { return }
        var rules = ArgumentRules()
        rules.ignore = names.map { ArgumentPattern($0) }
        // `ignore` alone keeps arguments whose value has a semicolon or a zero byte.
        rules.drop = rules.ignore
        arguments = rules
    }

    private static func pointer(_ text: String, _ option: String) throws(Mistake) -> JSONPointer {
        guard !text.isEmpty, let pointer = JSONPointer(text) else {
            throw Mistake(description: "\(option)\(text) is not a JSON pointer (RFC 6901) such as /requestId or /items/0/id")
        }
        return pointer
    }

    /// Number of passes over the content of a request.
    public var passes: Int { 1 + pointers.count + echoes.count }

    /// The fields that are compared. Content-Type always is, because it determines how content is compared.
    func compared(_ fields: Fields) -> Fields {
        guard !self.fields.isEmpty else { return fields }
        let ignoresAll = self.fields.contains("*")
        var compared = fields
        compared.removeAll { entry, bytes in
            guard entry.known != .contentType else { return false }
            return ignoresAll || self.fields.contains(String(decoding: bytes[entry.nameRange], as: UTF8.self).lowercased())
        }
        return compared
    }

    /// The content that is compared, before secrets are replaced.
    func compared(_ content: [UInt8], of fields: Fields) -> [UInt8] {
        if let arguments, MediaType(of: fields)?.isForm == true, !fields.contains(.contentEncoding) {
            // As in targets, the rules remove ignored arguments whatever their value is.
            return arguments.sent([UInt8(ascii: "?")] + content).map { Array($0.dropFirst()) } ?? content
        }
        guard !pointers.isEmpty, Self.isJSON(content, fields) else { return content }
        return JSONPointer.removing(pointers, from: content)
    }

    /// Whether the content is a complete JSON text without a content coding.
    static func isJSON(_ content: [UInt8], _ fields: Fields) -> Bool {
        MediaType(of: fields)?.isJSON == true && !fields.contains(.contentEncoding)
            && [.valid, .validScalar].contains(JSONTextChecker.check(content.span))
    }

    // MARK: Echoes

    /// Maximum length of an echoed value as JSON text. Longer values are not echoed.
    static let echoedBytes = 4 << 10

    /// The value of each echo source in a request, as JSON text; nil if there is none, or it is neither a string nor a number.
    func echoed(target: [UInt8], _ fields: Fields, _ content: [UInt8]) -> [[UInt8]?] {
        guard !echoes.isEmpty else { return [] }
        let isJSON = Self.isJSON(content, fields)
        return echoes.map { source in
            let value: [UInt8]?
            switch source {
            case .pointer(let pointer): value = isJSON ? pointer.range(in: content.span).map { Array(content[$0.value]) } : nil
            case .argument(let name):
                let query = target[(target.firstIndex(of: UInt8(ascii: "?")).map { $0 + 1 } ?? target.endIndex)...]
                let form = MediaType(of: fields)?.isForm == true ? content[...] : []
                let found = Self.argument(name, in: query) ?? Self.argument(name, in: form)
                value = found.map { JSONValue.string($0).serialized() }
            }
            guard let value, let first = value.first, first == 0x22 || first == UInt8(ascii: "-") || first.isASCIIDigit,
                value.count <= Self.echoedBytes
            else { return nil }
            return value
        }
    }

    private static func argument(_ name: String, in query: ArraySlice<UInt8>) -> String? {
        for argument in query.split(separator: UInt8(ascii: "&")) {
            guard let equals = argument.firstIndex(of: UInt8(ascii: "=")) else { continue }
            guard PercentCoding.decode(argument[..<equals], plusIsSpace: true) == name else { continue }
            return PercentCoding.decode(argument[(equals + 1)...], plusIsSpace: true)
        }
        return nil
    }
}

// Reads the configuration file through libyaml's events, which carry the line numbers for messages. Supports mappings, lists and plain
// values. Rejects anchors, aliases, tags and further documents.

import CYAML

public struct ConfigurationMistake: Error, Sendable, Equatable, CustomStringConvertible {
    public let file: String
    /// 0 if no line is known.
    public let line: Int
    public let sentence: String

    public init(file: String, line: Int, sentence: String) {
        self.file = file
        self.line = line
        self.sentence = HiddenSecrets.hide(in: sentence)
    }

    public var description: String { line > 0 ? "\(file):\(line): \(sentence)" : "\(file): \(sentence)" }
}

indirect enum YAMLNode {
    case scalar(String, line: Int)
    case sequence([YAMLNode], line: Int)
    case mapping([(key: String, line: Int, value: YAMLNode)], line: Int)

    var line: Int {
        switch self {
        case .scalar(_, let line), .sequence(_, let line), .mapping(_, let line): line
        }
    }
}

struct YAMLFile {
    /// The whole document; nil if it is empty.
    /// - Throws: the first syntax error. Nothing after it can be interpreted.
    static func parse(_ text: [UInt8], file: String) throws(ConfigurationMistake) -> YAMLNode? {
        // On the heap, because the parser holds a pointer to itself after it has received its input.
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        defer { parser.deallocate() }
        guard yaml_parser_initialize(parser) == 1 else {
            throw ConfigurationMistake(file: file, line: 0, sentence: "cannot be read: out of memory")
        }
        defer { yaml_parser_delete(parser) }
        let input = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(1, text.count))
        defer { input.deallocate() }
        _ = input.initialize(from: text)
        yaml_parser_set_input_string(parser, input.baseAddress, text.count)
        var reader = EventReader(parser: parser, file: file)
        return try reader.document()
    }
}

private struct EventReader {
    let parser: UnsafeMutablePointer<yaml_parser_t>
    let file: String

    /// Greater than the depth of any setting.
    private static let depthLimit = 8

    private struct Event {
        var type: yaml_event_type_t
        var text = ""
        var line: Int
    }

    mutating func document() throws(ConfigurationMistake) -> YAMLNode? {
        var root: YAMLNode?
        while true {
            let event = try next()
            switch event.type {
            case YAML_STREAM_START_EVENT, YAML_DOCUMENT_END_EVENT: break
            case YAML_DOCUMENT_START_EVENT:
                guard root == nil else { throw mistake(event.line, "a second YAML document begins here: a file must contain only one") }
                root = try node(next(), depth: 0)
            case YAML_STREAM_END_EVENT: return root
            default: throw mistake(event.line, "unexpected YAML element: settings are names with values, lists or groups")
            }
        }
    }

    private mutating func node(_ event: Event, depth: Int) throws(ConfigurationMistake) -> YAMLNode {
        guard depth < Self.depthLimit else { throw mistake(event.line, "nested too deeply for any setting: check the indentation") }
        switch event.type {
        case YAML_SCALAR_EVENT: return .scalar(event.text, line: event.line)
        case YAML_SEQUENCE_START_EVENT:
            var items: [YAMLNode] = []
            while true {
                let item = try next()
                if item.type == YAML_SEQUENCE_END_EVENT { return .sequence(items, line: event.line) }
                items.append(try node(item, depth: depth + 1))
            }
        case YAML_MAPPING_START_EVENT:
            var pairs: [(key: String, line: Int, value: YAMLNode)] = []
            while true {
                let key = try next()
                if key.type == YAML_MAPPING_END_EVENT { return .mapping(pairs, line: event.line) }
                guard key.type == YAML_SCALAR_EVENT else { throw mistake(key.line, "the name of a setting must be a plain word") }
                let value = try next()
                pairs.append((key.text, key.line, try node(value, depth: depth + 1)))
            }
        case YAML_ALIAS_EVENT: throw mistake(event.line, "YAML aliases are not supported: repeat the value")
        default: throw mistake(event.line, "unexpected YAML element: settings are names with values, lists or groups")
        }
    }

    private mutating func next() throws(ConfigurationMistake) -> Event {
        var event = yaml_event_t()
        guard yaml_parser_parse(parser, &event) == 1 else {
            let line = Int(parser.pointee.problem_mark.line) + 1
            let problem = parser.pointee.problem.map { String(cString: $0) } ?? "not valid YAML"
            let isSyntax = [YAML_SCANNER_ERROR, YAML_PARSER_ERROR].contains(parser.pointee.error)
            let advice = isSyntax ? "; check indentation (no tabs), quotes and brackets here and in the line before" : ""
            throw mistake(line, problem + advice)
        }
        defer { yaml_event_delete(&event) }
        let line = Int(event.start_mark.line) + 1
        switch event.type {
        case YAML_SCALAR_EVENT:
            guard event.data.scalar.anchor == nil else { throw mistake(line, "YAML anchors are not supported: repeat the value") }
            let bytes = UnsafeBufferPointer(start: event.data.scalar.value, count: event.data.scalar.length)
            return Event(type: event.type, text: String(decoding: bytes, as: UTF8.self), line: line)
        case YAML_SEQUENCE_START_EVENT where event.data.sequence_start.anchor != nil,
            YAML_MAPPING_START_EVENT where event.data.mapping_start.anchor != nil:
            throw mistake(line, "YAML anchors are not supported: repeat the value")
        default: return Event(type: event.type, line: line)
        }
    }

    private func mistake(_ line: Int, _ sentence: String) -> ConfigurationMistake {
        ConfigurationMistake(file: file, line: line, sentence: sentence)
    }
}

// JSON Schema of the configuration file (draft 2020-12), for completion and checks in editors. Generated from the tables of settings.

import JSON

public enum SettingsSchema {
    public static let document: [UInt8] = {
        var root = object(SettingsTable.current, defaults: CisternSettings())
        let routes: JSONValue = ["type": "array", "items": ["$ref": "#/$defs/route"]]
        var api = object(APITable.current, defaults: nil)
        api.members["routes"] = .value(routes)
        root.members["routes"] = .value(routes)
        root.members["apis"] = .value(["type": "array", "items": api.json])
        let head: [JSONValue.Member] = [
            .init("$schema", "https://json-schema.org/draft/2020-12/schema"), .init("title", "Settings of Cistern"),
            .init("$defs", ["route": object(RouteTable.current, defaults: nil).json]),
        ]
        return JSONValue.object(head + (root.json.members ?? [])).document
    }()

    /// An object, or a single value.
    private indirect enum Node {
        case group([String: Node])
        case value(JSONValue)

        var members: [String: Node] {
            get { if case .group(let members) = self { members } else { [:] } }
            set { self = .group(newValue) }
        }

        var json: JSONValue {
            switch self {
            case .value(let value): return value
            case .group(let members):
                let properties = members.sorted { $0.key < $1.key }.map { name, member in
                    // Permits the short form `credentials: ignore`.
                    let word = name == CredentialSettingsTable.group ? member.members["partition"] : nil
                    return JSONValue.Member(name, word.map { ["oneOf": [$0.json, member.json]] } ?? member.json)
                }
                return .object([
                    .init("type", "object"), .init("additionalProperties", .bool(false)), .init("properties", .object(properties)),
                ])
            }
        }
    }

    /// - Parameter defaults: nil for items of lists, which inherit their values.
    private static func object<Root>(_ table: [Setting<Root>], defaults: Root?) -> Node {
        var root = Node.group([:])
        for setting in table { insert(schema(of: setting, defaults), at: setting.path.split(separator: ".")[...], in: &root) }
        return root
    }

    private static func insert(_ value: JSONValue, at path: ArraySlice<Substring>, in node: inout Node) {
        guard let name = path.first.map(String.init) else { return }
        guard path.count > 1 else {
            node.members[name] = .value(value)
            return
        }
        var group = node.members[name] ?? .group([:])
        insert(value, at: path.dropFirst(), in: &group)
        node.members[name] = group
    }

    private static func schema<Root>(of setting: Setting<Root>, _ defaults: Root?) -> JSONValue {
        var members: [JSONValue.Member] = [.init("description", .string(setting.help))]
        if let defaults { members.append(.init("default", .string(setting.text(in: defaults)))) }
        return .object(members + (setting.holdsFields ? fields : kind(setting.binding.kind)))
    }

    /// A field, a list of fields, or an object of names and values.
    private static var fields: [JSONValue.Member] {
        let values: JSONValue = ["type": "object", "additionalProperties": ["type": ["string", "number", "boolean"]]]
        return [
            .init("oneOf", [["type": ["string", "null"]], values, ["type": "array", "items": ["oneOf": [["type": "string"], values]]]])
        ]
    }

    private static func kind(_ kind: SettingKind) -> [JSONValue.Member] {
        let words: JSONValue = ["type": "array", "items": ["type": ["string", "number", "boolean"]]]
        switch kind {
        case .text: return [.init("type", ["string", "number", "boolean", "null"])]
        case .choice(let words):
            // YAML 1.1 reads `off` as a boolean.
            return [.init("enum", .array(words.map { .string($0) } + (words.contains("off") ? [.bool(false)] : [])))]
        case .list: return [.init("oneOf", [["type": ["string", "number", "null"]], words])]
        case .flag: return [.init("type", "boolean")]
        case .number(.count, let range):
            return [.init("type", "integer"), .init("minimum", .integer(range.lowerBound)), .init("maximum", .integer(range.upperBound))]
        case .number(.size, _): return [.init("type", ["integer", "string"]), .init("pattern", #"^[0-9.]+ *([KMGT]iB|[kKMGT]?B)?$"#)]
        case .number(.duration, _): return [.init("type", ["integer", "string"]), .init("pattern", #"^([0-9.]+ *(ms|s|m|h|d)|0)$"#)]
        case .number(.share, _): return [.init("type", "number"), .init("minimum", 0), .init("maximum", 1)]
        case .items(let schema): return schema()
        }
    }

    /// A word, or a list of words and objects.
    static func items<Item>(_ table: [Setting<Item>]) -> [JSONValue.Member] {
        let item: JSONValue = ["oneOf": [["type": "string"], object(table, defaults: nil).json]]
        return [.init("oneOf", [["type": ["string", "null"]], ["type": "array", "items": item]])]
    }
}

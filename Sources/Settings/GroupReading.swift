// Reads a mapping of the configuration file into a group of settings by the group's table, and collects mistakes.

struct GroupReading<Root> {
    let table: [Setting<Root>]
    private(set) var root: Root
    let name: String
    let file: String
    private(set) var mistakes: [ConfigurationMistake] = []
    /// Names of lists whose items inherit from the other settings. They are read later.
    var lists: Set<String> = []
    /// Nodes of these lists by name.
    private(set) var listed: [String: YAMLNode] = [:]
    /// Line of each name that was read.
    private(set) var lines: [String: Int] = [:]

    mutating func read(_ node: YAMLNode, prefix: String) {
        guard case .mapping(let pairs, _) = node else { return }
        for (key, line, value) in pairs {
            let path = prefix + key
            if let before = lines[path] {
                add(line, "\(name)\(path) is set twice, first in line \(before): remove one")
                continue
            }
            lines[path] = line
            if let setting = table.first(where: { $0.path == path }) {
                apply(setting, value, line)
            } else if table.contains(where: { $0.path.hasPrefix(path + ".") }) {
                readSection(value, path, line)
            } else if lists.contains(path) {
                listed[path] = value
            } else if name.isEmpty, let instead = RetiredSettings.removed[path] {
                add(line, "\(path) is no longer a setting: \(instead)")
            } else {
                add(
                    line,
                    "\(name)\(path) is not a setting\(SettingSuggestion.words(for: path, in: name, among: table.filter { $0.replacement == nil }.map(\.path)))"
                )
            }
        }
    }

    private mutating func readSection(_ value: YAMLNode, _ path: String, _ line: Int) {
        switch value {
        case .mapping: read(value, prefix: path + ".")
        case .scalar("", _): break
        case .scalar where path == CredentialSettingsTable.group:
            lines[CredentialSettingsTable.shortForm] = line
            if let setting = table.first(where: { $0.path == CredentialSettingsTable.shortForm }) { apply(setting, value, line) }
        case .scalar, .sequence:
            let instead = SettingSynonyms.ofGroup[path].map { "; did you mean \(name)\($0)?" } ?? ""
            add(line, "\(name)\(path) is a group of settings and cannot have a value\(instead)")
        }
    }

    private mutating func apply(_ setting: Setting<Root>, _ value: YAMLNode, _ line: Int) {
        if case .sequence(let nodes, _) = value,
            let found = setting.apply(nodes, to: &root, name: "\(name)\(setting.path)", file: file)
        {
            mistakes += found
            return
        }
        let text: SettingText
        switch value {
        case .scalar(let word, _): text = .one(word)
        case .sequence(let nodes, _):
            var words: [String] = []
            for node in nodes {
                if setting.holdsFields, let fields = Self.fields(node) {
                    words += fields
                    continue
                }
                guard case .scalar(let word, _) = node else {
                    return add(node.line, "\(name)\(setting.path) must be a list of plain values")
                }
                words.append(word)
            }
            text = .many(words)
        case .mapping where setting.holdsFields:
            guard let fields = Self.fields(value) else { return add(line, "\(name)\(setting.path) must have one value for each name") }
            text = .many(fields)
        case .mapping: return add(line, "\(name)\(setting.path) must be a value, not a group of settings")
        }
        if let problem = setting.apply(text, to: &root) { add(value.line, "\(name)\(setting.path) \(problem)") }
    }

    /// The members of a mapping as fields; nil if the node is something else, or a member has no plain value.
    private static func fields(_ node: YAMLNode) -> [String]? {
        guard case .mapping(let pairs, _) = node else { return nil }
        let fields = pairs.compactMap { key, _, value -> String? in if case .scalar(let word, _) = value { "\(key): \(word)" } else { nil }
        }
        return fields.count == pairs.count ? fields : nil
    }

    private mutating func add(_ line: Int, _ sentence: String) {
        mistakes.append(ConfigurationMistake(file: file, line: line, sentence: sentence))
    }
}

// Puts the layers together: defaults, then the file, then the environment, then the command line. All mistakes are gathered and told at once.

package struct SettingsReader {
    package private(set) var settings = CisternSettings()
    package private(set) var mistakes: [ConfigurationMistake] = []

    package init() {}

    /// - Parameter text: the file's bytes.
    package mutating func read(file: String, text: [UInt8]) {
        do throws(ConfigurationMistake) {
            guard let root = try YAMLFile.parse(text, file: file) else { return }
            guard case .mapping = root else {
                return add(file, root.line, "the file must hold settings: names, colons and values")
            }
            var seen: [String: Int] = [:]
            read(root, prefix: "", file, &seen)
        } catch {
            mistakes.append(error)
        }
    }

    private mutating func read(_ node: YAMLNode, prefix: String, _ file: String, _ seen: inout [String: Int]) {
        guard case .mapping(let pairs, _) = node else { return }
        for (key, line, value) in pairs {
            let path = prefix.isEmpty ? key : prefix + "." + key
            if let before = seen[path] {
                add(file, line, "\(path) is set twice: first in line \(before)")
                continue
            }
            seen[path] = line
            if let setting = SettingsTable.all.first(where: { $0.path == path }) {
                apply(setting, value, file, line)
            } else if SettingsTable.all.contains(where: { $0.path.hasPrefix(path + ".") }) {
                readSection(value, path, file, line, &seen)
            } else {
                add(file, line, "\(path) is not a setting\(suggestion(path))")
            }
        }
    }

    private mutating func readSection(_ value: YAMLNode, _ path: String, _ file: String, _ line: Int, _ seen: inout [String: Int]) {
        switch value {
        case .mapping: read(value, prefix: path, file, &seen)
        case .scalar("", _): break
        case .scalar, .sequence: add(file, line, "\(path) is a group of settings, not one with a value")
        }
    }

    private mutating func apply(_ setting: Setting, _ value: YAMLNode, _ file: String, _ line: Int) {
        let text: SettingText
        switch value {
        case .scalar(let word, _): text = .one(word)
        case .sequence(let nodes, _):
            var words: [String] = []
            for node in nodes {
                guard case .scalar(let word, _) = node else { return add(file, node.line, "\(setting.path) takes a list of plain values") }
                words.append(word)
            }
            text = .many(words)
        case .mapping: return add(file, line, "\(setting.path) takes a value, not settings of its own")
        }
        if let problem = setting.apply(text, to: &settings) { add(file, value.line, "\(setting.path) \(problem)") }
    }

    /// Reads `CISTERN_…`; what begins so and names no setting is a mistake.
    package mutating func read(environment: [String: String]) {
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("CISTERN_") && name != "CISTERN_CONFIG" {
            guard let setting = SettingsTable.all.first(where: { $0.environment == name }) else {
                add("environment", 0, "\(name) names no setting")
                continue
            }
            if let problem = setting.apply(.one(value), to: &settings) { add("environment", 0, "\(name) \(problem)") }
        }
    }

    /// - Parameters:
    ///   - path: the setting's path.
    ///   - option: how the user spelt it.
    package mutating func read(path: String, _ text: SettingText, option: String) {
        guard let setting = SettingsTable.all.first(where: { $0.path == path }) else {
            return add("command line", 0, "\(path) is not a setting\(suggestion(path))")
        }
        if let problem = setting.apply(text, to: &settings) { add("command line", 0, "\(option) \(problem)") }
    }

    /// For what only the whole can tell.
    package mutating func add(_ file: String, _ line: Int, _ sentence: String) {
        mistakes.append(ConfigurationMistake(file: file, line: line, sentence: sentence))
    }

    /// The nearest name, where one is near.
    private func suggestion(_ path: String) -> String {
        let near = SettingsTable.all.map { (path: $0.path, distance: Self.distance($0.path, path)) }.min { $0.distance < $1.distance }
        guard let near, near.distance <= 3 else { return "" }
        return "; did you mean \(near.path)?"
    }

    /// Levenshtein's.
    private static func distance(_ left: String, _ right: String) -> Int {
        let (left, right) = (Array(left.utf8), Array(right.utf8))
        var row = Array(0...right.count)
        for (i, a) in left.enumerated() {
            var diagonal = row[0]
            row[0] = i + 1
            for (j, b) in right.enumerated() {
                let cost = min(row[j] + 1, row[j + 1] + 1, diagonal + (a == b ? 0 : 1))
                diagonal = row[j + 1]
                row[j + 1] = cost
            }
        }
        return row[right.count]
    }
}

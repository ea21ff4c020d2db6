// Suggests a setting for an unknown name: by another proxy's name for it, by its group, or by its spelling.

public enum SettingSuggestion {
    /// - Parameters:
    ///   - path: the unknown name, relative to its group.
    ///   - group: name of the group with a final dot; empty at the top level.
    ///   - known: settings of the group.
    /// - Returns: text that follows "is not a setting"; empty without a suggestion.
    static func words(for path: String, in group: String = "", among known: [String]) -> String {
        let name = normalized(path)
        if name != path, known.contains(name) { return "; did you mean \(group)\(name)?" }
        if let synonym = synonym(of: name, in: group) { return words(of: synonym, in: group, among: known) }
        let others = elsewhere(name, in: group)
        if !others.isEmpty { return "; did you mean \(others.joined(separator: " or "))?" }
        return nearest(name, among: known).map { "; did you mean \(group)\($0)?" } ?? ""
    }

    /// - Parameter variable: unknown environment variable that begins with CISTERN_.
    /// - Returns: text that follows "is not the variable of a setting"; empty without a suggestion.
    static func words(forVariable variable: String) -> String {
        let rest = variable.dropFirst("CISTERN_".count).lowercased()
        if let near = nearest(variable, among: SettingsTable.current.map(\.environment)) { return "; did you mean \(near)?" }
        if let setting = SettingSynonyms.ofGroup[rest] { return "; did you mean \(Setting<CisternSettings>.environment(of: setting))?" }
        let grouped = groups.filter { rest.hasPrefix($0 + "_") }.map { $0 + "." + rest.dropFirst($0.count + 1) }
        guard let synonym = ([rest] + grouped).lazy.compactMap({ synonym(of: $0, in: "") }).first else {
            return elsewhere(rest, in: "").first.map { "; did you mean \(Setting<CisternSettings>.environment(of: $0))?" } ?? ""
        }
        guard let target = synonym.target, SettingsTable.current.contains(where: { $0.path == target }) else {
            return words(of: synonym, in: "", among: [])
        }
        return words(of: .init(target: Setting<CisternSettings>.environment(of: target), note: synonym.note), in: "", among: [])
    }

    /// - Parameter option: unknown option of the command line, without its dashes.
    /// - Returns: the corresponding setting (nil if there is none) and how it differs; nil for an unknown name.
    public static func meaning(ofOption option: String) -> (setting: String?, note: String)? {
        let name = normalized(option)
        if let synonym = synonym(of: name, in: "") { return (synonym.target, synonym.note) }
        return elsewhere(name, in: "").first.map { ($0, "") }
    }

    // MARK: The steps

    /// The name in snake case: `connect-timeout` and `connectTimeout` become `connect_timeout`.
    private static func normalized(_ path: String) -> String {
        var name = ""
        var wasSmall = false
        for character in path {
            if character.isUppercase, wasSmall { name.append("_") }
            wasSmall = character.isLowercase || character.isNumber
            name += character == "-" ? "_" : character.lowercased()
        }
        return name
    }

    private static func synonym(of path: String, in group: String) -> SettingSynonyms.Synonym? {
        let last = path.split(separator: ".").last.map(String.init) ?? path
        return [group + path, path, last].lazy.compactMap { SettingSynonyms.all[$0] }.first
    }

    private static func words(of synonym: SettingSynonyms.Synonym, in group: String, among known: [String]) -> String {
        guard let target = synonym.target else { return " and has no equivalent: \(synonym.note)" }
        let (setting, scope) = inPlace(target, in: group, among: known)
        return "; use \(setting)\(scope)\(synonym.note.isEmpty ? "" : ": \(synonym.note)")"
    }

    /// The group's name for the setting. If the group has none, the setting's path and the scope in which it applies.
    private static func inPlace(_ target: String, in group: String, among known: [String]) -> (setting: String, scope: String) {
        guard !group.isEmpty, !target.hasPrefix(group) else { return (target, "") }
        for prefix in ["", "cache.", "upstream.", "failure.", "access."] where target.hasPrefix(prefix) {
            let own = String(target.dropFirst(prefix.count))
            if known.contains(own) { return (group + own, "") }
        }
        if group == "apis.", target.hasPrefix("routes.") { return (group + target, "") }
        switch group {
        case "routes.": return (target, ", for all paths")
        case "apis.": return (target, ", for all APIs")
        default: return (target, "")
        }
    }

    /// Settings with that name in other groups; empty if there are more than two.
    private static func elsewhere(_ path: String, in group: String) -> [String] {
        let last = path.split(separator: ".").last.map(String.init) ?? path
        let named = { (paths: [String]) in paths.filter { $0.hasSuffix("." + last) && $0.count { $0 == "." } == 1 } }
        let others = named(SettingsTable.current.map(\.path))
        if !others.isEmpty { return others.count <= 2 ? others : [] }
        let inLists = named(RouteTable.all.map { "routes.\($0.path)" } + CisternSettings.Listener.table.map { "listen.\($0.path)" })
        return inLists.count <= 2 ? inLists : []
    }

    /// First components of the paths of settings and synonyms.
    private static let groups = Set((SettingsTable.all.map(\.path) + SettingSynonyms.all.keys).map { String($0.prefix { $0 != "." }) })
        .sorted()

    /// The most similar name; nil if it differs by more than one letter, or two letters for a longer name.
    public static func nearest(_ path: String, among names: [String]) -> String? {
        let last = path.split { $0 == "." }.last?.count ?? 0
        let near = names.map { (path: $0, distance: distance($0, path)) }.min { $0.distance < $1.distance }
        guard let near, near.distance <= (last > 4 ? 2 : 1) else { return nil }
        return near.path
    }

    /// The Levenshtein distance.
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

// The lines of a settings file for several proposals, which can be copied together.

public enum ProposedSettings {
    /// Returns the lines: one block for each route, new routes with literal segments before those with `*` and `**`, because the first route
    /// that matches applies.
    public static func yaml(_ proposals: [Proposal], _ settings: AdvisedSettings) -> [String] {
        let timeout = proposals.first { $0.kind == .timeout }
        var lines = timeout.map { ["upstream:", "  first_byte_timeout: \($0.value)"] } ?? []
        let groups = Dictionary(grouping: proposals.filter { $0.kind != .timeout }) { Key(route: $0.route, path: $0.path) }
        guard !groups.isEmpty else { return lines }
        lines.append("routes:")
        var names = Set(settings.routes.map(\.name))
        for (key, group) in groups.sorted(by: { $0.key < $1.key }) {
            guard let route = settings.routes.first(where: { $0.name == key.route }) else { continue }
            if !key.route.isEmpty { lines.append("  # add to the existing route \(key.route)") }
            let name = key.route.isEmpty ? newName(for: key.path, besides: &names) : key.route
            lines += ["  - name: \(name)", "    path: \(quoted(key.path))"] + block(group, route).map { "    " + $0 }
        }
        return lines
    }

    private struct Key: Hashable, Comparable {
        let route: String
        let path: String

        /// Existing routes first; then by the first segment of another kind.
        static func < (one: Key, other: Key) -> Bool {
            (one.route.isEmpty ? 1 : 0, one.ranks, one.path) < (other.route.isEmpty ? 1 : 0, other.ranks, other.path)
        }

        private var ranks: String {
            String(path.split(separator: "/").map { $0 == "**" ? "2" : $0 == "*" ? "1" : "0" as Character })
        }
    }

    /// The settings of one route. Lists keep their configured members.
    private static func block(_ proposals: [Proposal], _ route: AdvisedRoute) -> [String] {
        func values(_ kind: Proposal.Kind) -> [String] { proposals.filter { $0.kind == kind }.map(\.value) }
        var lines: [String] = []
        let freshness =
            values(.freshness).map { "  default: \($0)" }
            + (values(.vary).isEmpty ? [] : ["  ignore: [\((route.ignoredDirectives + values(.vary)).joined(separator: ", "))]"])
        if !freshness.isEmpty { lines += ["freshness:"] + freshness }
        if !values(.argument).isEmpty {
            let ignored = route.ignoredArguments + values(.argument)
            lines += ["arguments:", "  ignore: [\(ignored.map(quoted).joined(separator: ", "))]"]
        }
        return lines + values(.negative).map { "negative: \($0)" } + values(.slow).map { "rescue_after: \($0)" }
    }

    /// A name of an argument may have brackets.
    private static func quoted(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }

    private static func newName(for path: String, besides names: inout Set<String>) -> String {
        let words = path.split { !($0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_" || $0 == "-")) }
        let name = words.isEmpty ? "top" : String(words.joined(separator: "-").prefix(40))
        let unique = names.contains(name) ? (2...).lazy.map { "\(name)-\($0)" }.first { !names.contains($0) } ?? name : name
        names.insert(unique)
        return unique
    }
}

// Puts the layers together: defaults, then the file, then the environment, then the command line. All mistakes are gathered and told at once.

public struct SettingsReader {
    public private(set) var settings = CisternSettings()
    public private(set) var mistakes: [ConfigurationMistake] = []
    /// Whether every file that was named could be read; if not, what seems to be missing may stand there.
    public private(set) var isComplete = true
    /// Paths of the settings that have the profile's values, since nobody has set them.
    public private(set) var profiled: [String] = []
    private var routeNodes: [(file: String, node: YAMLNode)] = []
    private var apiNodes: [(file: String, node: YAMLNode)] = []
    /// Where the value of a setting, or a route, was said last.
    private var places: [String: (file: String, line: Int)] = [:]

    public init() {}

    /// As the lines stand in the file; what has no line comes behind, as it was found.
    public var mistakesInOrder: [ConfigurationMistake] {
        let place = { (mistake: ConfigurationMistake) in mistake.line > 0 ? mistake.line : Int.max }
        return mistakes.enumerated().sorted { (place($0.element), $0.offset) < (place($1.element), $1.offset) }.map(\.element)
    }

    /// - Parameter text: the file's bytes.
    public mutating func read(file: String, text: [UInt8]) {
        do throws(ConfigurationMistake) {
            guard let root = try YAMLFile.parse(text, file: file) else { return }
            guard case .mapping = root else {
                return add(file, root.line, "the file must hold settings: names, colons and values")
            }
            var group = settings
            let reading = read(root, SettingsTable.all, into: &group, named: "", file, lists: ["routes", "apis"])
            for (path, line) in reading.lines { places[path] = (file, line) }
            if let routes = reading.listed["routes"] { routeNodes.append((file, routes)) }
            if let apis = reading.listed["apis"] { apiNodes.append((file, apis)) }
            settings = group
        } catch {
            mistakes.append(error)
            isComplete = false
        }
    }

    /// A file that cannot even be opened.
    public mutating func addUnreadable(file: String, _ reason: String) {
        add(file, 0, "cannot be read: \(reason)")
        isComplete = false
    }

    /// Reads what a mapping says of the settings in `table`.
    /// - Parameters:
    ///   - name: what the mistakes call the group, with the dot behind it; empty for the whole.
    ///   - lists: see `GroupReading`.
    private mutating func read<Root>(
        _ node: YAMLNode, _ table: [Setting<Root>], into root: inout Root, named name: String, _ file: String, lists: Set<String> = []
    ) -> GroupReading<Root> {
        var reading = GroupReading(table: table, root: root, name: name, file: file)
        reading.lists = lists
        reading.read(node, prefix: "")
        root = reading.root
        mistakes += reading.mistakes
        return reading
    }

    /// Reads the APIs and the routes, which begin as what the other settings say together: so this comes after all layers.
    public mutating func finish() {
        applyProfile()
        for (file, node) in apiNodes { readAPIs(node, file) }
        for (file, node) in routeNodes {
            let routes = self.routes(node, file, beginningAs: settings, named: "routes.")
            settings.routes += routes
        }
        (routeNodes, apiNodes) = ([], [])
    }

    private mutating func readAPIs(_ node: YAMLNode, _ file: String) {
        guard case .sequence(let items, _) = node else {
            return add(file, node.line, "apis must be a list, each with a name and an upstream")
        }
        for item in items {
            guard case .mapping = item else {
                add(file, item.line, "an API has settings of its own: a name and an upstream at least")
                continue
            }
            var api = CisternSettings.API(settings)
            let reading = read(item, APITable.all, into: &api, named: "apis.", file, lists: ["routes"])
            for problem in api.problems { add(file, item.line, problem) }
            let prefix = "apis.\(api.name)."
            places[prefix] = (file, item.line)
            for (path, line) in reading.lines { places[prefix + path] = (file, line) }
            if settings.apis.contains(where: { $0.name == api.name }) { add(file, item.line, "two APIs are called \"\(api.name)\"") }
            api.settings.upstream.url = api.upstream.first ?? ""
            if let node = reading.listed["routes"] {
                api.settings.routes = routes(node, file, beginningAs: api.settings, named: prefix + "routes.")
            }
            settings.apis.append(api)
        }
    }

    /// - Parameter name: what the places of their settings begin with.
    private mutating func routes(
        _ node: YAMLNode, _ file: String, beginningAs settings: CisternSettings, named name: String
    ) -> [CisternSettings.Route] {
        guard case .sequence(let items, _) = node else {
            add(file, node.line, "routes must be a list, each with a name and a path")
            return []
        }
        var routes: [CisternSettings.Route] = []
        for item in items {
            var route = CisternSettings.Route(settings)
            guard case .mapping = item else {
                add(file, item.line, "a route has settings of its own: a name and a path at least")
                continue
            }
            let lines = read(item, RouteTable.all, into: &route, named: "routes.", file).lines
            for problem in route.problems { add(file, item.line, problem) }
            for (path, line) in lines { places["\(name)\(route.name).\(path)"] = (file, line) }
            if routes.contains(where: { $0.name == route.name }) { add(file, item.line, "two routes are called \"\(route.name)\"") }
            routes.append(route)
        }
        return routes
    }

    /// Gives the profile's values to all settings that nobody has set.
    private mutating func applyProfile() {
        for (path, text) in SettingsProfile.values[settings.cache.profile] ?? [] where places[path] == nil {
            guard let setting = SettingsTable.all.first(where: { $0.path == path }) else { continue }
            _ = setting.apply(text, to: &settings)
            profiled.append(path)
        }
    }

    /// Reads `CISTERN_…`; what begins so and names no setting is a mistake.
    public mutating func read(environment: [String: String]) {
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("CISTERN_") && name != "CISTERN_CONFIG" {
            guard let setting = SettingsTable.all.first(where: { $0.environment == name }) else {
                if Self.isServiceLink(name, value) { continue }
                if let (path, instead) = SettingsTable.retired.first(where: { Setting<CisternSettings>.environment(of: $0.key) == name }) {
                    add("environment", 0, "\(name), which was for \(path), is no longer a setting: \(instead)")
                    continue
                }
                add("environment", 0, "\(name) names no setting\(SettingSuggestion.words(forVariable: name))")
                continue
            }
            if value.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
                let hint =
                    value.utf8.last == 0x0d
                    ? "a carriage return at its end; remove it (files with Windows line ends have them)" : "a control character"
                add("environment", 0, "\(name) has \(hint)")
                continue
            }
            places[setting.path] = ("environment", 0)
            if let problem = setting.apply(.one(value), to: &settings) { add("environment", 0, "\(name) \(problem)") }
        }
    }

    /// Kubernetes tells each container of its neighbours in this way; one called cistern, or cistern-…, is no mistake.
    private static func isServiceLink(_ name: String, _ value: String) -> Bool {
        name.hasSuffix("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || (name.contains("_PORT") && value.contains("://"))
            || name.split(separator: "_PORT_").last.map { $0.first?.isNumber == true && $0.contains("_") } == true
    }

    /// - Parameters:
    ///   - path: the setting's path.
    ///   - option: how the user spelt it.
    public mutating func read(path: String, _ text: SettingText, option: String) {
        if let instead = SettingsTable.retired[path] {
            return add("command line", 0, "\(path) is no longer a setting: \(instead)")
        }
        guard let setting = SettingsTable.all.first(where: { $0.path == path }) else {
            return add(
                "command line", 0, "\(path) is not a setting\(SettingSuggestion.words(for: path, among: SettingsTable.all.map(\.path)))")
        }
        places[path] = ("command line", 0)
        if let problem = setting.apply(text, to: &settings) { add("command line", 0, "\(option) \(problem)") }
    }

    /// For what the command line says of several settings at once.
    public mutating func change<Failure: Error>(_ change: (inout CisternSettings) throws(Failure) -> Void) throws(Failure) {
        try change(&settings)
    }

    /// The same for one API alone: what is found wrong there is told where the file says it of the API, or of all.
    /// - Returns: a reader of its settings, and without mistakes.
    public func reader(of api: CisternSettings.API) -> SettingsReader {
        var reader = self
        reader.settings = api.settings
        reader.mistakes = []
        let prefix = "apis.\(api.name)."
        for setting in SettingsTable.all {
            let name = setting.path.split(separator: ".", maxSplits: 1).last.map(String.init) ?? setting.path
            for known in [setting.path, name] {
                if let place = places[prefix + known] { reader.places[setting.path] = place }
            }
        }
        if let place = places[prefix + "upstream"] { reader.places["upstream.url"] = place }
        for (path, place) in places where path.hasPrefix(prefix + "routes.") { reader.places[String(path.dropFirst(prefix.count))] = place }
        return reader
    }

    /// Takes over what another has found of an API.
    public mutating func take(_ mistakes: [ConfigurationMistake], ofAPI name: String) {
        for mistake in mistakes where !self.mistakes.contains(where: { $0.sentence == mistake.sentence }) {
            add(mistake.file, mistake.line, "API \(name): \(mistake.sentence)")
        }
    }

    /// Where the value of a setting comes from: the default, a profile, a file with the line, the environment, or the command line.
    func origin(of path: String) -> String {
        if profiled.contains(path) { return "profile \(settings.cache.profile)" }
        guard let place = places[path] else { return "default" }
        if place.file == "environment" { return "environment, \(Setting<CisternSettings>.environment(of: path))" }
        return place.line == 0 ? place.file : "\(place.file):\(place.line)"
    }

    /// A warning for each retired setting that somebody has set, with its place and its replacement.
    public var retirements: [ConfigurationMistake] {
        places.compactMap { path, place in
            Self.replacement(of: path).map { replacement in
                ConfigurationMistake(
                    file: place.file, line: place.line, sentence: "\(path) will be removed in the next version: use \(replacement)")
            }
        }.sorted { ($0.file, $0.line, $0.sentence) < ($1.file, $1.line, $1.sentence) }
    }

    /// - Parameter path: a setting's, behind the name of the API or of the route that has it.
    private static func replacement(of path: String) -> String? {
        let parts = path.split(separator: ".", maxSplits: 2).map(String.init)
        switch parts.first {
        case "apis" where parts.count == 3 && parts[2].hasPrefix("routes."): return replacement(of: parts[2])
        case "apis" where parts.count == 3: return APITable.all.first { $0.path == parts[2] }?.replacement
        case "routes" where parts.count == 3: return RouteTable.all.first { $0.path == parts[2] }?.replacement
        default: return SettingsTable.all.first { $0.path == path }?.replacement
        }
    }

    /// Whether somebody has said it, or it stands at its default.
    public func isGiven(_ path: String) -> Bool { places[path] != nil }

    /// For what only the whole can tell of one setting: told where its value was said.
    /// - Parameter path: the setting's, or `routes`, the route's name and the path in it.
    public mutating func add(about path: String, _ sentence: String) {
        let place = places[path] ?? ("settings", 0)
        add(place.file, place.line, sentence)
    }

    public mutating func add(_ file: String, _ line: Int, _ sentence: String) {
        mistakes.append(ConfigurationMistake(file: file, line: line, sentence: sentence))
    }
}

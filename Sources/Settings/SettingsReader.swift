// Combines the layers of settings: defaults, file, environment, command line. Collects all mistakes and reports them together.

public struct SettingsReader {
    public private(set) var settings = CisternSettings()
    public private(set) var mistakes: [ConfigurationMistake] = []
    /// Whether all named files could be read. If not, seemingly missing settings may be in an unread file.
    public private(set) var isComplete = true
    /// Settings that `cache.policy: rfc9111` has set, with the prefix of their API.
    public private(set) var setByPolicy: [String] = []
    private var routeNodes: [(file: String, node: YAMLNode)] = []
    private var apiNodes: [(file: String, node: YAMLNode)] = []
    /// Source of the last value of a setting or a route.
    private var locations: [String: (file: String, line: Int)] = [:]

    public init() {}

    /// Mistakes in the order of their lines, followed by mistakes without a line in the order of their discovery.
    public var mistakesInOrder: [ConfigurationMistake] {
        let location = { (mistake: ConfigurationMistake) in mistake.line > 0 ? mistake.line : Int.max }
        return mistakes.enumerated().sorted { (location($0.element), $0.offset) < (location($1.element), $1.offset) }.map(\.element)
    }

    /// - Parameter text: bytes of the file.
    public mutating func read(file: String, text: [UInt8]) {
        do throws(ConfigurationMistake) {
            guard let root = try YAMLFile.parse(text, file: file) else { return }
            guard case .mapping = root else {
                return add(file, root.line, "the file must contain settings in the form NAME: VALUE")
            }
            var group = settings
            let reading = read(root, SettingsTable.all, into: &group, named: "", file, lists: ["routes", "apis"])
            for (path, line) in reading.lines { locations[path] = (file, line) }
            if let routes = reading.listed["routes"] { routeNodes.append((file, routes)) }
            if let apis = reading.listed["apis"] { apiNodes.append((file, apis)) }
            settings = group
        } catch {
            mistakes.append(error)
            isComplete = false
        }
    }

    public mutating func addUnreadable(file: String, _ reason: String) {
        add(file, 0, "cannot be read: \(reason)")
        isComplete = false
    }

    /// Reads the settings of `table` from a mapping.
    /// - Parameters:
    ///   - name: name of the group in messages, with a final dot; empty at the top level.
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

    /// Reads APIs and routes. They inherit from the other settings, so all layers must have been read.
    public mutating func finish() {
        for (file, node) in apiNodes { readAPIs(node, file) }
        var completed = settings
        complete(&completed)
        settings = completed
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
                add(file, item.line, "an API must be a group of settings with at least a name and an upstream")
                continue
            }
            var api = CisternSettings.API(settings)
            let reading = read(item, APITable.all, into: &api, named: "apis.", file, lists: ["routes"])
            for problem in api.problems { add(file, item.line, problem) }
            let prefix = "apis.\(api.name)."
            locations[prefix] = (file, item.line)
            for (path, line) in reading.lines { locations[prefix + path] = (file, line) }
            if settings.apis.contains(where: { $0.name == api.name }) {
                add(file, item.line, "two APIs have the name \"\(api.name)\": rename one")
            }
            api.settings.upstreamURL = api.upstream.first ?? ""
            complete(&api.settings, named: prefix)
            if let node = reading.listed["routes"] {
                api.settings.routes = routes(node, file, beginningAs: api.settings, named: prefix + "routes.")
            }
            settings.apis.append(api)
        }
    }

    /// - Parameter name: prefix under which the sources of the settings are recorded.
    private mutating func routes(
        _ node: YAMLNode, _ file: String, beginningAs settings: CisternSettings, named name: String
    ) -> [CisternSettings.Route] {
        guard case .sequence(let items, _) = node else {
            add(file, node.line, "routes must be a list, each with a name and a path")
            return []
        }
        var routes: [CisternSettings.Route] = []
        for item in items {
            var route = settings.otherRoute.forMember
            guard case .mapping = item else {
                add(file, item.line, "a route must be a group of settings with at least a name and a path")
                continue
            }
            let lines = read(item, RouteTable.all, into: &route, named: "routes.", file).lines
            for problem in route.problems { add(file, item.line, problem) }
            for (path, line) in lines { locations["\(name)\(route.name).\(path)"] = (file, line) }
            if routes.contains(where: { $0.name == route.name }) {
                add(file, item.line, "two routes have the name \"\(route.name)\": rename one")
            }
            routes.append(route)
        }
        return routes
    }

    /// Applies what depends on several settings of all layers: the policy, and retired settings.
    /// - Parameter api: prefix of the API that has the settings; empty for those of all APIs.
    private mutating func complete(_ settings: inout CisternSettings, named api: String = "") {
        let before = settings
        if settings.cache.policy == .rfc9111 || settings.retired.usesStandardPolicy {
            if location(of: "cache.policy", in: api) == nil { settings.cache.policy = .rfc9111 }
            for (path, text) in StandardPolicy.values where location(of: path, in: api) == nil {
                guard let setting = SettingsTable.all.first(where: { $0.path == path }) else { continue }
                _ = setting.apply(text, to: &settings)
                setByPolicy.append(Self.name(of: path, in: api))
            }
        }
        RetiredSettings.transfer(in: &settings)
        transferLocations(of: api, from: before, to: settings)
    }

    /// Attributes the value of a retired setting's successor to the line of the retired setting. Giving both is a mistake if no former
    /// version had both; else the retired one disables what it disabled in that version.
    private mutating func transferLocations(of api: String, from before: CisternSettings, to settings: CisternSettings) {
        let given = locations
        for retired in RetiredSettings.all.reversed() {
            guard let setting = SettingsTable.all.first(where: { $0.path == retired.successor }),
                let location = location(of: retired.path, in: api)
            else { continue }
            let (name, former) = (Self.name(of: setting.path, in: api), Self.name(of: retired.path, in: api))
            if RetiredSettings.isNew(setting.path), given[name] != nil || given[former] != nil && given[setting.path] != nil {
                let path = given[former] == nil ? retired.path : former
                add(location.file, location.line, "\(path) and \(given[name] == nil ? setting.path : name) are both set: remove \(path)")
            } else if given[former] != nil, setting.text(in: before) != setting.text(in: settings) {
                // The variable has the name of the retired setting.
                locations[name] = location.file == "environment" ? (origin(of: retired.path), 0) : location
            }
        }
    }

    /// Name under which the source of a setting's value is recorded.
    private static func name(of path: String, in api: String) -> String {
        api.isEmpty ? path : api + (path.split(separator: ".", maxSplits: 1).last ?? path[...])
    }

    /// Source of a setting's value for an API, or for all.
    private func location(of path: String, in api: String) -> (file: String, line: Int)? {
        locations[Self.name(of: path, in: api)] ?? locations[path]
    }

    /// Reads variables that begin with `CISTERN_`. A name that matches no setting is a mistake.
    public mutating func read(environment: [String: String]) {
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("CISTERN_") && name != "CISTERN_CONFIG" {
            guard let setting = SettingsTable.all.first(where: { $0.environment == name }) else {
                if Self.isServiceLink(name, value) { continue }
                if let (path, instead) = RetiredSettings.removed.first(where: { Setting<CisternSettings>.environment(of: $0.key) == name })
                {
                    add("environment", 0, "\(name) was the variable of \(path), which is no longer a setting: \(instead)")
                    continue
                }
                add("environment", 0, "\(name) is not the variable of a setting\(SettingSuggestion.words(forVariable: name))")
                continue
            }
            if value.utf8.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
                let hint =
                    value.utf8.last == 0x0d
                    ? "a carriage return at its end, as in files with Windows line ends: remove it"
                    : "a control character in its value: remove it"
                add("environment", 0, "\(name) has \(hint)")
                continue
            }
            locations[setting.path] = ("environment", 0)
            if let problem = setting.apply(.one(value), to: &settings) { add("environment", 0, "\(name) \(problem)") }
        }
    }

    /// Whether Kubernetes has set the variable to describe a service called cistern, or cistern-…, of the namespace.
    private static func isServiceLink(_ name: String, _ value: String) -> Bool {
        name.hasSuffix("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || (name.contains("_PORT") && value.contains("://"))
            || name.split(separator: "_PORT_").last.map { $0.first?.isNumber == true && $0.contains("_") } == true
    }

    /// - Parameters:
    ///   - path: path of the setting.
    ///   - option: spelling on the command line, for messages.
    public mutating func read(path: String, _ text: SettingText, option: String) {
        if let instead = RetiredSettings.removed[path] {
            return add("command line", 0, "\(path) is no longer a setting: \(instead)")
        }
        guard let setting = SettingsTable.all.first(where: { $0.path == path }) else {
            return add(
                "command line", 0, "\(path) is not a setting\(SettingSuggestion.words(for: path, among: SettingsTable.current.map(\.path)))"
            )
        }
        locations[path] = ("command line", 0)
        if let problem = setting.apply(text, to: &settings) { add("command line", 0, "\(option) \(problem)") }
    }

    /// Changes several settings together, for options of the command line.
    public mutating func change<Failure: Error>(_ change: (inout CisternSettings) throws(Failure) -> Void) throws(Failure) {
        try change(&settings)
    }

    /// Returns a reader with the settings of an API and without mistakes. Its mistakes are attributed to the API's settings, or to those
    /// for all APIs.
    public func reader(of api: CisternSettings.API) -> SettingsReader {
        var reader = self
        reader.settings = api.settings
        reader.mistakes = []
        let prefix = "apis.\(api.name)."
        for setting in SettingsTable.all {
            let name = setting.path.split(separator: ".", maxSplits: 1).last.map(String.init) ?? setting.path
            for known in [setting.path, name] {
                if let location = locations[prefix + known] { reader.locations[setting.path] = location }
            }
        }
        if let location = locations[prefix + "upstream"] { reader.locations["upstream.url"] = location }
        for (path, location) in locations where path.hasPrefix(prefix + "routes.") {
            reader.locations[String(path.dropFirst(prefix.count))] = location
        }
        return reader
    }

    /// Adds the mistakes of the reader of an API, unless they are known already.
    public mutating func take(_ mistakes: [ConfigurationMistake], ofAPI name: String) {
        for mistake in mistakes where !self.mistakes.contains(where: { $0.sentence == mistake.sentence }) {
            add(mistake.file, mistake.line, "API \(name): \(mistake.sentence)")
        }
    }

    /// Source of a setting's value: default, profile, file and line, environment or command line.
    func origin(of path: String) -> String {
        if setByPolicy.contains(path) { return "cache.policy: \(StandardPolicy.name)" }
        guard let location = locations[path] else { return "default" }
        if location.file == "environment" { return "environment, \(Setting<CisternSettings>.environment(of: path))" }
        return location.line == 0 ? location.file : "\(location.file):\(location.line)"
    }

    /// A warning for each retired setting in use, with its source and its replacement.
    public var retirements: [ConfigurationMistake] {
        locations.compactMap { path, location in
            Self.replacement(of: path).map { replacement in
                ConfigurationMistake(
                    file: location.file, line: location.line, sentence: "\(path) will be removed in the next version: \(replacement)")
            }
        }.sorted { ($0.file, $0.line, $0.sentence) < ($1.file, $1.line, $1.sentence) }
    }

    /// - Parameter path: a setting's path, which may follow the name of an API or a route.
    private static func replacement(of path: String) -> String? {
        let parts = path.split(separator: ".", maxSplits: 2).map(String.init)
        switch parts.first {
        case "apis" where parts.count == 3 && parts[2].hasPrefix("routes."): return replacement(of: parts[2])
        case "apis" where parts.count == 3: return APITable.all.first { $0.path == parts[2] }?.replacement
        case "routes" where parts.count == 3: return RouteTable.all.first { $0.path == parts[2] }?.replacement
        default: return SettingsTable.all.first { $0.path == path }?.replacement
        }
    }

    /// Whether a layer has set the value.
    public func isGiven(_ path: String) -> Bool { locations[path] != nil }

    /// Adds a mistake at the source of a setting's value.
    /// - Parameter path: path of the setting, or `routes`, the route's name and the path within the route.
    public mutating func add(about path: String, _ sentence: String) {
        let location = locations[path] ?? ("settings", 0)
        add(location.file, location.line, sentence)
    }

    public mutating func add(_ file: String, _ line: Int, _ sentence: String) {
        mistakes.append(ConfigurationMistake(file: file, line: line, sentence: sentence))
    }
}

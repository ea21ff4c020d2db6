// Settings of CORS, declared once for all paths (`cors.…`) and for each route.

extension CisternSettings {
    public struct CrossOrigin: Sendable, Equatable {
        public var origins: [String] = []
        public var methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
        public var fields = ["*"]
        public var credentials = false
        /// Milliseconds.
        public var maxAge = 600_000
    }
}

enum CrossOriginGroup {
    private static let day = 24 * 3_600_000

    /// - Parameters:
    ///   - group: where the values are stored.
    ///   - isRoute: whether the settings belong to a route or an API and default to the setting for all paths.
    static func settings<Root>(_ group: WritableKeyPath<Root, CisternSettings.CrossOrigin>, isRoute: Bool = false) -> [Setting<Root>] {
        func setting(_ name: String, _ binding: Setting<Root>.Binding, _ help: String) -> Setting<Root> {
            Setting(path: name, binding: binding, help: isRoute ? "As \(name)." : help)
        }
        return [
            setting(
                "cors.origins", .list(group.appending(path: \.origins)),
                "Origins whose scripts may ask, whole: https://app.example.com; * for all. Empty: what the upstream says of CORS holds."),
            setting("cors.methods", .list(group.appending(path: \.methods)), "Methods that they may use."),
            setting(
                "cors.fields", .list(group.appending(path: \.fields)), "Request fields that they may set; * for all that are asked for."),
            setting("cors.credentials", .flag(group.appending(path: \.credentials)), "Whether browsers send cookies with such requests."),
            setting("cors.max_age", .duration(group.appending(path: \.maxAge), 0...day), "How long browsers may remember it."),
        ]
    }
}

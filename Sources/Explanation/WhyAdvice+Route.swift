// Completes advice on a setting that only routes have, for a path without a route.

extension WhyAdvice {
    /// Adds a whole route. A path with an asterisk gets none, because the asterisk would be a wildcard in the route's pattern.
    /// - Parameters:
    ///   - path: the path as clients write it.
    ///   - api: name of the API; empty if there is only one.
    func withRoute(for path: String, ofAPI api: String) -> WhyAdvice {
        guard let inRoute, !path.contains("*") else { return self }
        let words = path.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "-" }
        let name = String(words.drop { $0 == "-" }.prefix(32))
        let route = "{name: \(name.isEmpty ? "root" : name), path: '\(path.replacing("'", with: "''"))', \(inRoute)}"
        let place = api.isEmpty ? "" : " to the API \(api)"
        return WhyAdvice(setting, "\(effect). The path has no route: add one\(place), such as routes: [\(route)]")
    }
}

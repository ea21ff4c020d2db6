// Paths that the operator excludes from the cache (`cache: off`), so that their stored responses can be purged.

import CachePolicy
import ResponseCache

extension Routes {
    /// Criteria of a purge for each route with `cache: off`. Earlier routes, which use the cache, take precedence.
    public var exclusions: [PurgeCriteria] {
        var (exclusions, earlier): ([PurgeCriteria], [String]) = ([], [])
        for route in all.dropLast() {
            if route.usesCache {
                earlier.append(route.pattern.text)
            } else {
                var criteria = PurgeCriteria()
                (criteria.matching, criteria.except) = (route.pattern.text, earlier)
                exclusions.append(criteria)
            }
        }
        return exclusions
    }
}

extension ProxySettings {
    /// Warnings about routes with `cache: off` whose pattern does not include the path with, or without, a final slash. These are different
    /// paths (RFC 3986 §6.2.2), but many upstreams serve one resource for both.
    public var exclusionWarnings: [String] {
        let table = Routes(routes, rest: otherRoute)
        return routes.filter { !$0.usesCache }.compactMap { route in
            let text = route.pattern.text
            guard let other = Self.sibling(of: text), !table.isOff(Self.example(of: other)[...]) else { return nil }
            let base = text.hasSuffix("/") ? text.dropLast() : text[...]
            return
                "route \(route.name) has cache: off for \(text), but \(other) uses the cache: if the upstream reads both as one path, "
                + "set path: \(base)/**, which also includes all paths below, or add a route for \(other)"
        }
    }

    private static func sibling(of pattern: String) -> String? {
        if pattern == "/" || pattern.hasSuffix("/**") { return nil }
        return pattern.hasSuffix("/") ? String(pattern.dropLast()) : pattern + "/"
    }

    /// A path that matches the pattern.
    private static func example(of pattern: String) -> [UInt8] { pattern.utf8.map { $0 == UInt8(ascii: "*") ? UInt8(ascii: "-") : $0 } }
}

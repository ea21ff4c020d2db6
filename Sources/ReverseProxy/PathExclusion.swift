// Paths that the operator excludes from the cache (`cache: off`), so that their stored responses can be purged.

import CachePolicy
import ResponseCache

public struct PathExclusion: Sendable, Equatable {
    let pattern: String
    /// Patterns of earlier routes, which use the cache.
    let except: [String]

    /// The paths as criteria of a purge.
    public var criteria: PurgeCriteria {
        var criteria = PurgeCriteria()
        (criteria.matching, criteria.except) = (pattern, except)
        return criteria
    }
}

extension Routes {
    /// One for each route with `cache: off`.
    public var exclusions: [PathExclusion] {
        var (exclusions, earlier): ([PathExclusion], [String]) = ([], [])
        for route in all.dropLast() {
            if route.usesCache {
                earlier.append(route.pattern.text)
            } else {
                exclusions.append(PathExclusion(pattern: route.pattern.text, except: earlier))
            }
        }
        return exclusions
    }
}

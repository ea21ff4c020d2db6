// What is different for some paths.

import CachePolicy
import Explanation
import HTTPCore
import ResponseCache

package struct Route: Sendable {
    /// What metrics and logs call it; empty for all paths that no other route is for.
    package var name = ""
    package var pattern = RoutePattern("/**")
    /// At the start; nil for that of all paths.
    package var mode: ServingMode?
    /// Milliseconds that the upstream has for a whole good response where a stored copy may go out instead; 0: no such limit.
    package var rescueAfter: Int64 = 1_500
    /// Whether the copy of those without credentials may stand in for a request with credentials that has none of its own.
    package var rescueWithShared = RescueWithShared.own
    /// A hit with less than this percentage of its freshness left brings a new response in the background; 0: never.
    package var refreshAhead = 0
    package var refreshAheadHits = 3
    /// Methods beside GET and HEAD that only read here: their responses are kept by the request's content (RFC 10008 for QUERY).
    package var methods: [Method] = []
    /// Longest content of such a request, since it is held while the key is made.
    package var contentLimitBytes = 64 << 10
    package var arguments = ArgumentRules()
    /// Whether a write to a member (`/users/1`) makes its collection (`/users`, with any arguments) invalid too.
    package var invalidatesCollection = false
    /// What a response must be like to count as good.
    package var good = GoodResponse()

    package init() {}

    package var sharedRescueWarning: String {
        let place = name.isEmpty ? "" : " on route \(name)"
        return
            "cache.rescue_with_shared is always\(place): while the upstream fails, clients with credentials may get the stored response of "
            + "those without any, and take it for a logout"
    }
}

/// All routes, the last of them for every path that no other fits.
package struct Routes: Sendable {
    package let all: [Route]

    init(_ routes: [Route], rest: Route, strictness: Strictness = .rescue) {
        all = (routes + [rest]).map { route in
            var route = route
            route.arguments.keepsEmptyQuery = strictness == .strict
            return route
        }
    }

    /// Whether such a request only reads on this route, and its response is kept by its content. Asked here and not of the route, which would
    /// be copied.
    func reads(_ method: Method, on route: Int) -> Bool { method == .query || all[route].methods.contains(method) }

    /// The modes that they begin with, by their places.
    var modes: [Int: ServingMode] {
        var modes: [Int: ServingMode] = [:]
        for (place, route) in all.dropLast().enumerated() { modes[place] = route.mode }
        return modes
    }

    /// What the cache has to know of them.
    var arguments: ArgumentTable {
        ArgumentTable(all.dropLast().map { ($0.pattern, $0.arguments) }, rest: all.last?.arguments ?? ArgumentRules())
    }

    /// What an explanation has to know of a target's route.
    package func explained(_ target: [UInt8]) -> ExplainedRoute {
        let route = all[place(of: target[...])]
        return ExplainedRoute(name: route.name, arguments: route.arguments)
    }

    /// The place of the first route for this target.
    package func place(of target: ArraySlice<UInt8>) -> Int {
        for index in 0..<(all.count - 1) where all[index].pattern.matches(target) { return index }
        return all.count - 1
    }
}

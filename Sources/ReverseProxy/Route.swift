// What is different for some paths.

import Addresses
import CachePolicy
import Explanation
import Forwarding
import HTTPCore
import Identity
import ResponseCache

public struct Route: Sendable {
    /// What metrics and logs call it; empty for all paths that no other route is for.
    public var name = ""
    public var pattern = RoutePattern("/**")
    /// At the start; nil for that of all paths.
    public var mode: ServingMode?
    /// Milliseconds that the upstream has for a whole good response where a stored copy may go out instead; 0: no such limit.
    public var rescueAfter: Int64 = 1_500
    /// Whether the copy of those without credentials may stand in for a request with credentials that has none of its own.
    public var rescueWithShared = RescueWithShared.own
    /// A hit with less than this percentage of its freshness left brings a new response in the background; 0: never.
    public var refreshAhead = 0
    public var refreshAheadHits = 3
    /// Methods beside GET and HEAD that only read here: their responses are kept by the request's content (RFC 10008 for QUERY).
    public var methods: [Method] = []
    /// Longest content of such a request, since it is held while the key is made.
    public var contentLimitBytes = 64 << 10
    public var arguments = ArgumentRules()
    /// Whether requests' credentials tell users apart.
    public var credentials = CredentialRules()
    /// How their tokens tell whom they belong to.
    public var tokens = RouteTokens()
    /// How the upstream is asked whom credentials belong to.
    public var lookUp = LookUpSettings()
    /// Whether a write makes what is stored for its target invalid (RFC 9111 §4.4).
    public var invalidatesTarget = true
    /// Whether a write to a member (`/users/1`) makes its collection (`/users`, with any arguments) invalid too.
    public var invalidatesCollection = false
    /// What a response must be like to count as good.
    public var good = GoodResponse()
    /// What a response must be like to be kept; one that is not is passed on, and is no failure.
    public var kept = GoodResponse()
    /// What scripts of other origins may do; off where the upstream says it itself.
    public var crossOrigin = CrossOriginRules()
    /// Whether its responses are streams: passed on as they come, and nothing else.
    public var streams = false
    /// Protocols that its clients may change to, in small letters.
    public var upgrades: [[UInt8]] = []
    /// What the operator says of how long responses count as fresh.
    public var freshness = FreshnessRules()
    /// What is done about content codings.
    public var compression = Compression.gzip
    /// Which addresses may ask; empty: those that the listener lets in.
    public var access = AddressRules()
    /// Whether a request's connection must have presented a client certificate.
    public var needsCertificate = false
    /// Whether a client's directives can have the upstream asked where something fresh is stored.
    public var obeysClients = true

    public init() {}

    /// What is allowed and may mislead or harm clients.
    public var warnings: [String] {
        let place = name.isEmpty ? "" : " on route \(name)"
        var warnings: [String] = []
        if rescueWithShared == .always {
            warnings.append(
                "cache.rescue_with_shared is always\(place): while the upstream fails, clients with credentials may get the stored response of "
                    + "those without any, and take it for a logout")
        }
        for directive in IgnoredDirective.allCases where freshness.ignored.contains(directive) {
            guard let harm = directive.harm else { continue }
            warnings.append("cache.freshness.ignore has \(directive.rawValue)\(place): \(harm)")
        }
        let asked = ["no-cache", "max-age", "must-revalidate"].filter { name in !freshness.ignored.contains { $0.rawValue == name } }
        if freshness.minimum != nil, !asked.isEmpty {
            warnings.append(
                "cache.freshness.minimum\(place) does not change responses that say they must be asked for each time "
                    + "(no-cache, max-age=0, must-revalidate): cache.freshness.ignore does not name \(asked.joined(separator: ", "))")
        }
        if credentials.areIgnored {
            warnings.append(
                "credentials are ignored\(place): whoever asks gets the response that was stored for anybody, also with a wrong password or none"
            )
        }
        if !lookUp.path.isEmpty, lookUp.pointers.count + lookUp.fields.count == 1 {
            warnings.append(
                "credentials.identity.lookup names one value only\(place): name everything that decides what a user may see, such as roles, or "
                    + "requests with fewer rights get the responses of others")
        }
        return warnings + tokens.warnings(place)
    }
}

/// All routes, the last of them for every path that no other fits.
public struct Routes: Sendable {
    public let all: [Route]
    /// Whether all of them do.
    private let obeyClients: Bool
    /// Whether one of them is for streams.
    private let someStream: Bool
    /// Whether clients may change to another protocol on one of them.
    private let someUpgrade: Bool
    /// Whether one of them has demands on responses.
    private let someDemand: Bool
    /// Whether the operator decides on one of them what scripts of other origins may do.
    private let someCrossOrigin: Bool
    /// What is done about content codings.
    let compression: PathTable<Compression>
    private let crossOrigins: PathTable<CrossOriginRules>
    private let rescues: PathTable<RescueWithShared>
    /// Where routes lie in `all`.
    private let places: PathTable<Int>

    init(_ routes: [Route], rest: Route, strictness: Strictness = .rescue) {
        all = (routes + [rest]).map { route in
            var route = route
            route.arguments.keepsEmptyQuery = strictness == .strict
            return route
        }
        obeyClients = all.allSatisfy(\.obeysClients)
        someStream = all.contains(where: \.streams)
        someUpgrade = all.contains { !$0.upgrades.isEmpty }
        someCrossOrigin = all.contains(where: \.crossOrigin.isOn)
        compression = PathTable(routes.map { ($0.pattern, $0.compression) }, rest: rest.compression).simplified
        crossOrigins = PathTable(routes.map { ($0.pattern, $0.crossOrigin) }, rest: rest.crossOrigin).simplified
        rescues = PathTable(routes.map { ($0.pattern, $0.rescueWithShared) }, rest: rest.rescueWithShared).simplified
        places = PathTable(routes.enumerated().map { ($1.pattern, $0) }, rest: routes.count)
        someDemand = all.contains { $0.good != Self.undemanding || $0.kept != Self.undemanding }
    }

    /// Whether such a request only reads on the route of every reading of its path, and its response is kept by its content. Asked here and not of the
    /// route, which would be copied.
    func reads(_ method: Method, _ target: ArraySlice<UInt8>) -> Bool {
        method == .query || places.holdsForAll(target) { all[$0].methods.contains(method) }
    }

    /// Whether a client's directives can have the upstream asked where something fresh is stored.
    func obeysClient(_ target: @autoclosure () -> ArraySlice<UInt8>) -> Bool {
        obeyClients || places.holdsForAll(target()) { all[$0].obeysClients }
    }

    /// Which copies a write to a target makes invalid.
    func invalidation(by target: ArraySlice<UInt8>) -> (sparesTarget: Bool, hasCollection: Bool) {
        (places.holdsForAll(target) { !all[$0].invalidatesTarget }, places.holdsForAny(target) { all[$0].invalidatesCollection })
    }

    /// Whether the copy of those without credentials may stand in.
    func rescueWithShared(_ target: @autoclosure () -> ArraySlice<UInt8>) -> RescueWithShared { rescues.rules(for: target()) }

    /// The modes that they begin with, by their places.
    var modes: [Int: ServingMode] {
        var modes: [Int: ServingMode] = [:]
        for (place, route) in all.dropLast().enumerated() { modes[place] = route.mode }
        return modes
    }

    /// What the cache has to know of them.
    var freshness: PathTable<FreshnessRules> { table(\.freshness).simplified }

    /// What is asked of the addresses of clients.
    var access: PathTable<AddressRules> { table(\.access) }

    /// Which want a client certificate.
    var certified: PathTable<Bool> { table(\.needsCertificate) }

    /// The same of arguments.
    var arguments: ArgumentTable { ArgumentTable(table(\.arguments)) }

    private func table<Rules: Sendable>(_ rules: (Route) -> Rules) -> PathTable<Rules> {
        PathTable(all.dropLast().map { ($0.pattern, rules($0)) }, rest: rules(all[all.count - 1]))
    }

    /// The same of credentials.
    var credentials: CredentialTable {
        // As the rules of tokens lie in `TokenKeys`, and `lookUps`.
        var (tokens, lookUps) = (0, 0)
        return CredentialTable(
            table { route in
                var rules = route.credentials
                if !route.tokens.keys.isEmpty {
                    rules.tokens = tokens
                    tokens += 1
                }
                if !route.lookUp.path.isEmpty {
                    rules.lookUp = lookUps
                    lookUps += 1
                }
                return rules
            })
    }

    /// Whether responses for this target are streams by the route of every reading.
    func stream(_ target: @autoclosure () -> ArraySlice<UInt8>) -> Bool {
        someStream && places.holdsForAll(target()) { all[$0].streams }
    }

    /// The protocols that a request may change to, as the value of an Upgrade field; nil if it offers none that the route of every reading lets through.
    func upgrade(_ head: RequestHead) -> [UInt8]? {
        guard someUpgrade, head.contains(.upgrade) else { return nil }
        let target = head.pathAndQuery
        let allowed = all[place(of: target)].upgrades.filter { name in places.holdsForAll(target) { all[$0].upgrades.contains(name) } }
        return Upgrade.offered(by: head, allowed: allowed)
    }

    /// The operator's word on scripts of other origins; nil where there is none.
    func crossOrigin(_ target: @autoclosure () -> ArraySlice<UInt8>) -> CrossOriginRules? {
        guard someCrossOrigin else { return nil }
        let rules = crossOrigins.rules(for: target())
        return rules.isOn ? rules : nil
    }

    /// What the upstream says of credentials, for each route where it is asked.
    /// - Parameter former: those before; what they remember is known further.
    func lookUps(after former: [ToldIdentities]) -> [ToldIdentities] {
        var left = former
        return all.map(\.lookUp).filter { !$0.path.isEmpty }.map { asked in
            left.firstIndex { $0.settings == asked }.map { left.remove(at: $0) } ?? ToldIdentities(asked)
        }
    }

    /// What the operator demands of a route's responses.
    func good(on route: Int) -> GoodResponse { someDemand ? all[route].good : Self.undemanding }

    /// What the operator demands of those that are kept.
    func kept(on route: Int) -> GoodResponse { someDemand ? all[route].kept : Self.undemanding }

    private static let undemanding = GoodResponse()

    /// What an explanation has to know of a target's route.
    public func explained(_ target: [UInt8]) -> ExplainedRoute {
        let route = all[place(of: target[...])]
        return ExplainedRoute(name: route.name, arguments: arguments.rules(for: target[...]), staleFor: route.freshness.staleFor)
    }

    /// The place of the first route for this target as it was written: for names, times and limits. Rules that protect or open have functions above,
    /// which look at every reading.
    public func place(of target: ArraySlice<UInt8>) -> Int {
        for index in 0..<(all.count - 1) where all[index].pattern.matches(target) { return index }
        return all.count - 1
    }
}

extension IgnoredDirective {
    /// What may happen where it is disregarded; nil where no more than that responses are older than they say.
    fileprivate var harm: String? {
        switch self {
        case .noStore: "what the upstream wants to be kept nowhere lies on the disk, and goes to all who have the same credentials, or none"
        case .privateResponse: "what is for one user goes to all who have the same credentials, or none"
        case .vary: "clients may get a response in another language or form than they ask for; only Origin and credentials still count"
        case .noCache, .maxAge, .expires, .mustRevalidate: nil
        }
    }
}

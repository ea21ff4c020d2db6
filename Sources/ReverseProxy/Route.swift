// Routes: settings that differ by path.

import Addresses
import CachePolicy
import Explanation
import Forwarding
import HTTPCore
import Identity
import ResponseCache

public struct Route: Sendable {
    /// Name in metrics and logs; empty for the route of all other paths.
    public var name = ""
    public var pattern = RoutePattern("/**")
    /// Mode at the start; nil uses the mode of all paths.
    public var mode: ServingMode?
    /// Maximum time in milliseconds to wait for a complete good response if a stored one may be served instead; 0: no limit.
    public var rescueAfter: Int64 = 1_500
    /// Whether the response stored for requests without credentials may be served to a request with credentials that has no stored response
    /// of its partition.
    public var sharedRescueMode = SharedRescueMode.own
    /// A hit with less than this percentage of its freshness lifetime left starts a background fetch; 0: never.
    public var refreshAhead = 0
    public var refreshAheadHits = 3
    /// Methods besides GET and HEAD that only read. Their responses are stored by the request content (RFC 10008 for QUERY).
    public var methods: [Method] = []
    /// Maximum length of such content in bytes. It is held in memory while the key is computed.
    public var contentLimitBytes = 64 << 10
    public var arguments = ArgumentRules()
    /// How requests' credentials determine partitions.
    public var credentials = CredentialRules()
    /// How tokens identify their users.
    public var tokens = RouteTokens()
    /// How the upstream is queried for the identity of credentials.
    public var lookUp = LookUpSettings()
    /// Whether a write invalidates the stored responses of its target (RFC 9111 §4.4).
    public var invalidatesTarget = true
    /// Whether a write to a member (`/users/1`) also invalidates its collection (`/users`, with any query).
    public var invalidatesCollection = false
    /// Requirements on good responses.
    public var good = GoodResponse()
    /// Requirements for storing a response. A response that violates one is forwarded and does not count as a failure.
    public var kept = GoodResponse()
    /// CORS rules; off if the upstream sends its own CORS fields.
    public var crossOrigin = CrossOriginRules()
    /// Whether requests use the cache. If not, Cistern only forwards them.
    public var usesCache = true
    /// Whether responses are streams, which are forwarded as they arrive and never stored.
    public var streams = false
    /// Protocols to which clients may switch, in lower case.
    public var upgrades: [[UInt8]] = []
    /// Changes to the fields of requests to the upstream.
    public var upstreamFields = UpstreamFieldRules()
    /// The operator's freshness rules.
    public var freshness = FreshnessRules()
    /// How content is compressed.
    public var compression = Compression.gzip
    /// Addresses that may send requests; empty: those that the listener permits.
    public var access = AddressRules()
    /// Whether the connection must have presented a client certificate.
    public var needsCertificate = false
    /// Whether a client's directives may force a request to the upstream although a fresh response is stored.
    public var usesClientDirectives = true

    public init() {}

    /// Warnings about settings that are valid but may mislead or harm clients. A route without a cache has none.
    public var warnings: [String] {
        guard usesCache else { return [] }
        let scope = name.isEmpty ? "" : " on route \(name)"
        var warnings: [String] = []
        if sharedRescueMode == .always {
            warnings.append(
                "cache.rescue_with_shared is always\(scope): while the upstream fails, clients with credentials may get the response "
                    + "stored for requests without credentials, and apps may interpret it as a logout")
        }
        for directive in IgnoredDirective.allCases where freshness.ignored.contains(directive) {
            guard let harm = directive.harm else { continue }
            warnings.append("cache.freshness.ignore has \(directive.rawValue)\(scope): \(harm)")
        }
        let asked = ["no-cache", "max-age", "must-revalidate"].filter { name in !freshness.ignored.contains { $0.rawValue == name } }
        if freshness.minimum != nil, !asked.isEmpty {
            warnings.append(
                "cache.freshness.minimum\(scope) does not apply to responses that require validation of each use "
                    + "(no-cache, max-age=0, must-revalidate): add \(asked.joined(separator: ", ")) to cache.freshness.ignore")
        }
        if credentials.areIgnored {
            warnings.append(
                "credentials are ignored\(scope): every client gets responses stored for other clients, even with a wrong password or none"
            )
        }
        if !lookUp.path.isEmpty, lookUp.pointers.count + lookUp.fields.count == 1 {
            warnings.append(
                "credentials.identity.lookup uses one value only\(scope): add all values that determine what a user may see, such as "
                    + "roles. Otherwise users with fewer rights may get responses of users with more rights")
        }
        return warnings + tokens.warnings(scope)
    }
}

/// All routes. The last one is for paths that match no other route. A class, so that passing the routes along copies nothing.
public final class Routes: Sendable {
    public let all: [Route]
    /// Whether all routes permit clients' directives.
    private let allUseClientDirectives: Bool
    /// Whether a route does not use the cache.
    private let someOff: Bool
    /// Whether a route is for streams.
    private let someStream: Bool
    /// Whether a route permits clients to switch protocols.
    private let someUpgrade: Bool
    /// Whether a route has requirements on responses.
    private let someDemand: Bool
    /// Whether a route has CORS rules.
    private let someCrossOrigin: Bool
    /// How content is compressed, by path.
    let compression: PathTable<Compression>
    private let crossOrigins: PathTable<CrossOriginRules>
    private let rescues: PathTable<SharedRescueMode>
    /// Changes to the fields of requests for a target.
    let upstreamFields: PathTable<UpstreamFieldRules>
    /// Indices in `all`, by path.
    private let indexByPath: PathTable<Int>

    init(_ routes: [Route], rest: Route, strictness: Strictness = .rescue) {
        all = (routes + [rest]).map { route in
            var route = route
            route.arguments.keepsEmptyQuery = strictness == .strict
            return route
        }
        allUseClientDirectives = all.allSatisfy(\.usesClientDirectives)
        someOff = all.contains { !$0.usesCache }
        someStream = all.contains(where: \.streams)
        someUpgrade = all.contains { !$0.upgrades.isEmpty }
        someCrossOrigin = all.contains(where: \.crossOrigin.isOn)
        compression = PathTable(routes.map { ($0.pattern, $0.compression) }, rest: rest.compression).simplified
        crossOrigins = PathTable(routes.map { ($0.pattern, $0.crossOrigin) }, rest: rest.crossOrigin).simplified
        rescues = PathTable(routes.map { ($0.pattern, $0.sharedRescueMode) }, rest: rest.sharedRescueMode).simplified
        upstreamFields = PathTable(routes.map { ($0.pattern, $0.upstreamFields) }, rest: rest.upstreamFields).simplified
        indexByPath = PathTable(routes.enumerated().map { ($1.pattern, $0) }, rest: routes.count)
        someDemand = all.contains { $0.good != Self.undemanding || $0.kept != Self.undemanding }
    }

    /// Whether a request with this method only reads, so that its response is stored by content. The routes of all readings of its path
    /// must permit that.
    func reads(_ method: Method, _ target: ArraySlice<UInt8>) -> Bool {
        method == .query || indexByPath.holdsForAll(target) { all[$0].methods.contains(method) }
    }

    /// Whether a client's directives may force a request to the upstream although a fresh response is stored.
    func usesClientDirectives(_ target: @autoclosure () -> ArraySlice<UInt8>) -> Bool {
        allUseClientDirectives || indexByPath.holdsForAll(target()) { all[$0].usesClientDirectives }
    }

    /// Returns which stored responses a write to this target invalidates.
    func invalidation(by target: ArraySlice<UInt8>) -> (sparesTarget: Bool, hasCollection: Bool) {
        (indexByPath.holdsForAll(target) { !all[$0].invalidatesTarget }, indexByPath.holdsForAny(target) { all[$0].invalidatesCollection })
    }

    /// Returns the rules for serving a response stored without credentials to requests with credentials.
    func sharedRescueMode(_ target: @autoclosure () -> ArraySlice<UInt8>) -> SharedRescueMode { rescues.rules(for: target()) }

    /// Modes at the start, by the index of the route.
    var modes: [Int: ServingMode] {
        var modes: [Int: ServingMode] = [:]
        for (index, route) in all.dropLast().enumerated() { modes[index] = route.mode }
        return modes
    }

    /// Rules of freshness and exclusion for the cache.
    var freshness: PathTable<FreshnessRules> {
        table { route in
            var rules = route.freshness
            rules.isOff = !route.usesCache
            (rules.unforwarded, rules.fixed) = (route.upstreamFields.unforwarded, route.upstreamFields.fixed)
            return rules
        }.simplified
    }

    /// Changes to the fields of an identity lookup. The client's own credentials are kept, because the response identifies their user. If
    /// paths have different fields, the operator's credentials are not added: the upstream might identify their user instead.
    /// - Parameter own: the client's credentials.
    func upstreamFields(ofLookUp target: ArraySlice<UInt8>, _ own: Fields, _ credentials: CredentialNames) -> UpstreamFieldRules {
        upstreamFields.rules(for: target).without { name in
            !own.all(named: name.span).isEmpty || !own.all(readAs: name.span).isEmpty
                || !upstreamFields.isUniform && credentials.contains(name.span)
        }
    }

    /// Rules for client addresses.
    var access: PathTable<AddressRules> { table(\.access) }

    /// Routes that require a client certificate.
    var certified: PathTable<Bool> { table(\.needsCertificate) }

    var arguments: ArgumentTable { ArgumentTable(table(\.arguments)) }

    private func table<Rules: Sendable>(_ rules: (Route) -> Rules) -> PathTable<Rules> {
        PathTable(all.dropLast().map { ($0.pattern, rules($0)) }, rest: rules(all[all.count - 1]))
    }

    var credentials: CredentialTable {
        // Indices of the rules in `TokenKeys` and in `lookUps`.
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

    /// Whether requests for this target do not use the cache: true if that holds for the route of any reading of its path.
    func isOff(_ target: @autoclosure () -> ArraySlice<UInt8>) -> Bool {
        someOff && indexByPath.holdsForAny(target()) { !all[$0].usesCache }
    }

    /// Whether responses for this target are streams. True only if that holds for the routes of all readings of its path.
    func stream(_ target: @autoclosure () -> ArraySlice<UInt8>) -> Bool {
        someStream && indexByPath.holdsForAll(target()) { all[$0].streams }
    }

    /// The protocols to which a request may switch, as the value of an Upgrade field. nil if it offers none that is permitted on all routes
    /// for its path.
    func upgrade(_ head: RequestHead) -> [UInt8]? {
        guard someUpgrade, head.contains(.upgrade) else { return nil }
        let target = head.pathAndQuery
        let allowed = all[index(of: target)].upgrades.filter { name in indexByPath.holdsForAll(target) { all[$0].upgrades.contains(name) } }
        return Upgrade.offered(by: head, allowed: allowed)
    }

    /// The operator's CORS rules; nil if there are none.
    func crossOrigin(_ target: @autoclosure () -> ArraySlice<UInt8>) -> CrossOriginRules? {
        guard someCrossOrigin else { return nil }
        let rules = crossOrigins.rules(for: target())
        return rules.isOn ? rules : nil
    }

    /// Identity lookups, one for each route that configures one.
    /// - Parameters:
    ///   - former: the former lookups; those with equal settings are kept with their results.
    ///   - fleet: nil if nothing is shared with other nodes.
    func lookUps(after former: [LookedUpIdentities], fleet: FleetMembership?) -> [LookedUpIdentities] {
        var left = former
        return all.map(\.lookUp).filter { !$0.path.isEmpty }.map { lookUp in
            left.firstIndex { $0.settings == lookUp }.map { left.remove(at: $0) }
                ?? LookedUpIdentities(lookUp, blindPeriod: fleet?.blindPeriod)
        }
    }

    func good(on route: Int) -> GoodResponse { someDemand ? all[route].good : Self.undemanding }

    func kept(on route: Int) -> GoodResponse { someDemand ? all[route].kept : Self.undemanding }

    private static let undemanding = GoodResponse()

    /// Returns the facts about a target's route that explanations show.
    public func explained(_ target: [UInt8]) -> ExplainedRoute {
        let route = all[index(of: target[...])]
        return ExplainedRoute(
            name: route.name, arguments: arguments.rules(for: target[...]), staleFor: route.freshness.staleFor,
            fields: upstreamFields.rules(for: target[...]).names)
    }

    /// Index of the first route that matches the target as written; for names, times and limits. Rules that permit or forbid something use
    /// the functions above, which check every reading of the path.
    public func index(of target: ArraySlice<UInt8>) -> Int {
        for index in 0..<(all.count - 1) where all[index].pattern.matches(target) { return index }
        return all.count - 1
    }
}

extension IgnoredDirective {
    /// Describes the possible harm of ignoring the directive; nil if responses only become older than they permit.
    fileprivate var harm: String? {
        switch self {
        case .noStore:
            "responses with no-store are stored on disk, and served to all requests with equal credentials, or to all without "
                + "credentials"
        case .privateResponse: "responses for one user are served to all requests with equal credentials, or to all without credentials"
        case .vary:
            "clients may get a response in another language or format than they request; only Origin and credentials still "
                + "select responses"
        case .noCache, .maxAge, .expires, .mustRevalidate: nil
        }
    }
}

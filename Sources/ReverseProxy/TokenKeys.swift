// The keys of all routes' tokens: one source for each file or URL, and what the log is told of them.

import CachePolicy
import Hashing
import Identity
import Logging
import ResponseCache

/// What the operator says of the tokens of a route (`credentials.identity.jwt`).
public struct RouteTokens: Sendable {
    /// A file or a URL; empty where tokens are not looked at.
    public var keys = ""
    /// The file of the certificates that the URL's is checked against; nil for the system's.
    public var authorities: String?
    public var settings = TokenSettings()

    public init() {}

    public static func isURL(_ keys: String) -> Bool {
        let lowercased = keys.lowercased()
        return lowercased.hasPrefix("https://") || lowercased.hasPrefix("http://")
    }

    /// What the operator should know of it.
    func warnings(_ place: String) -> [String] {
        guard Self.isURL(keys), keys.lowercased().hasPrefix("http://") else { return [] }
        return ["credentials.identity.jwt.keys is no https URL\(place): who can change what comes on the way can be any user"]
    }
}

/// How tokens are looked at, by routes.
struct TokenKeys: Sendable {
    /// In the order of the routes that have any.
    let rules: [TokenRules]
    private let sources: [KeySource]

    /// - Parameters:
    ///   - store: beside it keys are kept that were fetched; nil where nothing is stored.
    ///   - former: whose keys are used until they are read again.
    init(_ routes: Routes, beside store: StorePlace?, after former: TokenKeys? = nil, logger: Logger) {
        var sources: [[String?]: KeySource] = [:]
        rules = routes.all.filter { !$0.tokens.keys.isEmpty }.map { route in
            let (keys, authorities) = (route.tokens.keys, route.tokens.authorities)
            let place = Self.place(keys, authorities, store)
            let known = sources[[keys, authorities]] ?? former?.sources.first { $0.place == place }
            let source = known ?? KeySource(place) { Self.log($0, of: keys, logger) }
            sources[[keys, authorities]] = source
            return TokenRules(route.tokens.settings, source)
        }
        self.sources = Array(sources.values)
    }

    private static func place(_ keys: String, _ authorities: String?, _ store: StorePlace?) -> KeySource.Place {
        guard RouteTokens.isURL(keys) else { return .file(keys) }
        // What was fetched with one trust is not taken over by another.
        let number = Array((keys + (authorities.map { "\n\($0)" } ?? "")).utf8).withUnsafeBytes { ContentHash.number(of: $0) }
        return .url(keys, kept: store?.path(of: "keys-\(String(number, radix: 16))"), authorities: authorities)
    }

    /// - Parameter now: milliseconds of the monotonic clock.
    func start(now: Int64) { for source in sources { source.start(now: now) } }

    /// Keys that are there, and how often they were read, or could not be.
    /// - Parameter other: leaves out those that are its own too.
    func figures(besides other: TokenKeys?) -> (keys: Int, read: Int, failed: Int) {
        sources.filter { one in !(other?.sources.contains { $0 === one } ?? false) }.reduce((0, 0, 0)) { sum, source in
            let figures = source.figures
            return (sum.0 + figures.keys, sum.1 + figures.read, sum.2 + figures.failed)
        }
    }

    private static func log(_ event: KeySource.Event, of keys: String, _ logger: Logger) {
        let place = SecretNames.redacted(Array(keys.utf8))
        switch event {
        case .read(let count, let refused):
            logger.notice("\(count) \(count == 1 ? "key" : "keys") for tokens from \(place)")
            for reason in refused { logger.warning("a key from \(place) is not used: \(reason)") }
        case .failed(let sentence, hasKeys: true):
            logger.warning("the keys for tokens cannot be read from \(place): \(sentence); those that were read before are used")
        case .failed(let sentence, hasKeys: false):
            logger.warning(
                """
                the keys for tokens cannot be read from \(place): \(sentence); until they are, each token is a user of its own, so refreshed tokens \
                do not find their users' copies
                """)
        }
    }
}

// Token keys of all routes: one source for each file or URL. Logs when keys are read and when that fails.

import CachePolicy
import HTTPCore
import Identity
import Logging
import ResponseCache

/// Settings for the tokens of a route (`credentials.identity.jwt`).
public struct RouteTokens: Sendable, Equatable {
    /// File or URL of the keys. Empty: tokens are not verified.
    public var keys = ""
    /// File with the certificate authorities for the URL; nil uses those of the system.
    public var authorities: String?
    public var settings = TokenSettings()

    public init() {}

    public static func isURL(_ keys: String) -> Bool {
        let lowercased = keys.lowercased()
        return lowercased.hasPrefix("https://") || lowercased.hasPrefix("http://")
    }

    /// Warnings about insecure settings.
    func warnings(_ scope: String) -> [String] {
        guard keys.lowercased().hasPrefix("http://") else { return [] }
        return [
            "credentials.identity.jwt.keys is not an https URL\(scope): an attacker on the network path can replace the keys and "
                + "impersonate any user"
        ]
    }
}

/// Token rules of the routes, and the sources of their keys.
struct TokenKeys: Sendable {
    /// Rules of the routes with tokens, in the order of the routes.
    let rules: [TokenRules]
    private let sources: [KeySource]

    /// - Parameters:
    ///   - store: fetched keys are saved next to the store; nil: they are not saved.
    ///   - former: earlier sources. Their keys are used until the keys have been read again.
    init(_ routes: Routes, beside store: StoreLocation?, after former: TokenKeys? = nil, logger: Logger) {
        var sources: [[String?]: KeySource] = [:]
        rules = routes.all.filter { !$0.tokens.keys.isEmpty }.map { route in
            let (keys, authorities) = (route.tokens.keys, route.tokens.authorities)
            let location = Self.location(keys, authorities, store)
            let known = sources[[keys, authorities]] ?? former?.sources.first { $0.location == location }
            let source = known ?? KeySource(location) { Self.log($0, of: keys, logger) }
            sources[[keys, authorities]] = source
            return TokenRules(route.tokens.settings, source)
        }
        self.sources = Array(sources.values)
    }

    private static func location(_ keys: String, _ authorities: String?, _ store: StoreLocation?) -> KeySource.Location {
        guard RouteTokens.isURL(keys) else { return .file(keys) }
        // Keys that were fetched with one set of certificate authorities are not used with another.
        let text = Array((keys + (authorities.map { "\n\($0)" } ?? "")).utf8)
        let number = ContentHash.number(of: text.span)
        return .url(keys, kept: store?.path(of: "keys-\(String(number, radix: 16))"), authorities: authorities)
    }

    /// - Parameter now: milliseconds of the monotonic clock.
    func start(now: Int64) { for source in sources { source.start(now: now) } }

    /// Number of keys, and of successful and failed attempts to read them.
    /// - Parameter other: sources that `other` also uses are not counted; nil counts all.
    func figures(besides other: TokenKeys?) -> (keys: Int, read: Int, failed: Int) {
        sources.filter { one in !(other?.sources.contains { $0 === one } ?? false) }.reduce((0, 0, 0)) { sum, source in
            let figures = source.figures
            return (sum.0 + figures.keys, sum.1 + figures.read, sum.2 + figures.failed)
        }
    }

    private static func log(_ event: KeySource.Event, of keys: String, _ logger: Logger) {
        let location = SecretNames.redacted(Array(keys.utf8))
        switch event {
        case .read(let count, let refused):
            logger.notice("\(count) \(count == 1 ? "key" : "keys") for tokens read from \(location)")
            for reason in refused { logger.warning("a key from \(location) is not used: \(reason)") }
        case .failed(let sentence, hasKeys: true):
            logger.warning("cannot read the keys for tokens from \(location): \(sentence); the keys read earlier remain in use")
        case .failed(let sentence, hasKeys: false):
            logger.warning(
                """
                the keys for tokens cannot be read from \(location): \(sentence). Until then each token has a separate partition, so refreshed tokens \
                do not find their users' copies
                """)
        }
    }
}

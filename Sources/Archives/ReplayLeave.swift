// What scripts of other origins may read of a replay (Fetch §3.2). Recorded responses carry what the upstream said; this is for what was not
// recorded: our own responses, and preflights, which browsers' archives often leave out. Without a word of the operator it goes by what the
// recording lets an origin do anywhere, so that no other page can read what was recorded.

import CachePolicy
import HTTPCore

public struct ReplayLeave: Sendable {
    /// The operator's word, in the place of all that was recorded.
    private let rules: CrossOriginRules?
    /// The last leave that was recorded, by origin; of those who were let in by `*`, under that.
    private var grants: [[UInt8]: OriginGrant] = [:]

    private static let all = Array("*".utf8)

    /// - Parameters:
    ///   - responses: the fields of the recorded ones, in their order.
    ///   - origins: whose scripts may read all; empty for what was recorded. `*` is for those that send no credentials.
    public init(_ responses: [Fields], origins: [String]) {
        var rules = CrossOriginRules()
        rules.origins = origins.map { Array($0.utf8) }
        rules.allowsCredentials = !origins.contains("*")
        self.rules = rules.isOn ? rules : nil
        for fields in responses {
            guard let allowed = fields.first(.accessControlAllowOrigin) else { continue }
            if let grant = OriginGrant(fields, to: allowed) { grants[Array(allowed)] = grant }
        }
    }

    /// Whether recorded responses, too, have our lines in the place of what was recorded.
    public var replacesRecorded: Bool { rules != nil }

    /// The lines of a response that we make, or that replace a recorded one's.
    public func lines(for head: RequestHead) -> [UInt8] {
        if let rules { return rules.lines(for: head) }
        guard head.contains(.origin) else { return [] }
        // Whoever asks: another origin would not get it.
        return (grant(for: head)?.lines ?? []) + Array("Vary: Origin\r\n".utf8)
    }

    /// The lines of the response to a preflight that was not recorded; nil where the request is none, or its origin may do nothing here.
    public func preflight(_ head: RequestHead) -> [UInt8]? {
        guard let origin = head.fields.first(.origin), let method = head.fields.all(named: "access-control-request-method").first else {
            return nil
        }
        var rules = self.rules ?? CrossOriginRules()
        if self.rules == nil {
            guard let grant = grant(for: head) else { return nil }
            rules.origins = [grant.isForOneOrigin ? Array(origin) : Self.all]
            rules.allowsCredentials = grant.allowsCredentials
        }
        // What was not recorded gets a 404 that the script can read.
        rules.methods = [Array(method)]
        guard method.allSatisfy(isTokenByte), rules.verdict(of: head) == .allowed else { return nil }
        return rules.lines(for: head) + rules.leave(to: head)
    }

    private func grant(for head: RequestHead) -> OriginGrant? {
        let origins = head.fields.all(.origin)
        guard origins.count == 1, let origin = origins.first else { return nil }
        return grants[Array(origin)] ?? grants[Self.all]
    }
}

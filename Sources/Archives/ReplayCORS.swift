// CORS permissions of a replay (Fetch §3.2) for responses that were not recorded: Cistern's own responses, and preflights, which browsers'
// archives often omit. Recorded responses have the fields of the upstream. Without configured origins, an origin gets the permissions that
// the recording granted it for any request, so that no other page can read the recording.

import CachePolicy
import HTTPCore

public struct ReplayCORS: Sendable {
    /// Rules for the configured origins, which replace all recorded permissions; nil if none are configured.
    private let rules: CrossOriginRules?
    /// The last recorded permission by allowed origin, or by `*`.
    private var grants: [[UInt8]: OriginGrant] = [:]

    private static let all = Array("*".utf8)

    /// - Parameters:
    ///   - responses: fields of the recorded responses, in the order of the recording.
    ///   - origins: origins with scripts that may read everything. Empty: the recorded permissions apply. `*` permits requests without
    ///     credentials only.
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

    /// Whether Cistern's CORS fields also replace those of recorded responses.
    public var replacesRecorded: Bool { rules != nil }

    /// CORS field lines of a generated response, or in place of the CORS fields of a recorded one.
    public func lines(for head: RequestHead) -> [UInt8] {
        if let rules { return rules.lines(for: head) }
        guard head.contains(.origin) else { return [] }
        // Also without a permission, because the response to another origin would differ.
        return (grant(for: head)?.lines ?? []) + Array("Vary: Origin\r\n".utf8)
    }

    /// Field lines of the response to a preflight that was not recorded; nil if the request is no preflight, or its origin has no
    /// permission.
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
        // Any method is allowed, so that the script can read the 404 for a request that was not recorded.
        rules.methods = [Array(method)]
        guard method.allSatisfy(isTokenByte), rules.verdict(of: head) == .allowed else { return nil }
        return rules.lines(for: head) + rules.permissionLines(to: head)
    }

    private func grant(for head: RequestHead) -> OriginGrant? {
        let origins = head.fields.all(.origin)
        guard origins.count == 1, let origin = origins.first else { return nil }
        return grants[Array(origin)] ?? grants[Self.all]
    }
}

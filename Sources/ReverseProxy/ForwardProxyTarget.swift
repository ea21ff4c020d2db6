// Use as a forward proxy (RFC 9112 §3.2.2): determines which absolute request targets name a server for which Cistern responds. All other
// targets are refused.

import Addresses
import HTTPCore
import Upstream

enum ForwardProxyTarget {
    /// The authority of an absolute request target, with a port; nil for other targets.
    static func authority(of head: RequestHead) -> [UInt8]? {
        guard head.target.first != UInt8(ascii: "/"), let target = RequestTarget(head.target, method: head.method),
            let authority = target.authority, let isSecure = target.isSecure
        else { return nil }
        if authority.last == UInt8(ascii: ":") { return authority + Array(isSecure ? "443".utf8 : "80".utf8) }
        return ServedNames.port(of: authority) != nil ? Array(authority) : authority + Array(isSecure ? ":443".utf8 : ":80".utf8)
    }
}

extension ProxySettings {
    /// The authorities for which Cistern responds as a forward proxy: the configured names, or else the upstream's own. The upstream's also
    /// match with the default port of the other scheme, because clients that leave TLS to the proxy use http. Empty if there are none.
    var proxiedNames: ServedNames {
        guard access.names.isEmpty else { return access.names }
        // With a path prefix, the paths of clients would differ from those of the upstream.
        guard strippedPath.isEmpty, upstream.atEachAddress.allSatisfy(\.basePath.isEmpty) else { return ServedNames() }
        return ServedNames(
            upstream.atEachAddress.flatMap { address in
                let usual: [UInt16: UInt16] = [443: 80, 80: 443]
                return [address.port, usual[address.port]].compactMap { $0 }.map { "\(address.hostInURL):\($0)" }
            })
    }
}

/// Chooses the API for an absolute request target.
struct ProxiedAPIs {
    private let served: ServedAPIs
    /// Indices of the APIs that absolute targets can name.
    private let indices: [Int]

    init(_ apis: [ProxySettings]) {
        let known = apis.enumerated().filter { !$0.element.proxiedNames.isEmpty }
        indices = known.map(\.offset)
        served = ServedAPIs(
            known.map { _, api in
                var scope = api.scope
                // Other names of `forwarding.names` are checked at admission.
                if scope.names.isEmpty, api.access.names.isEmpty { scope.names = api.proxiedNames }
                return scope
            })
    }

    func choose(_ authority: [UInt8], _ target: ArraySlice<UInt8>) -> ServedAPIs.Choice {
        let choice = served.choose(authority[...], target)
        guard case .api(let index) = choice else { return choice }
        return .api(indices[index])
    }
}

// Where clients take Cistern for their forward proxy (RFC 9112 §3.2.2): which whole URIs name what is served here, and nothing else does.

import Addresses
import HTTPCore
import Upstream

enum ForwardProxyTarget {
    /// The authority that a whole URI names, with a port; nil where the request's target is something else.
    static func authority(of head: RequestHead) -> [UInt8]? {
        guard head.target.first != UInt8(ascii: "/"), let target = RequestTarget(head.target, method: head.method),
            let authority = target.authority, let isSecure = target.isSecure
        else { return nil }
        if authority.last == UInt8(ascii: ":") { return authority + Array(isSecure ? "443".utf8 : "80".utf8) }
        return ServedNames.port(of: authority) != nil ? Array(authority) : authority + Array(isSecure ? ":443".utf8 : ":80".utf8)
    }
}

extension ProxySettings {
    /// The names by which whole URIs mean it: those that are served here, else the upstream's own; of that also the other scheme's usual port, since
    /// clients that leave TLS to us ask for http. Empty where there are none.
    var proxiedNames: ServedNames {
        guard access.names.isEmpty else { return access.names }
        // Else clients' paths would be others than the upstream's.
        guard strippedPath.isEmpty, upstream.atEachAddress.allSatisfy(\.basePath.isEmpty) else { return ServedNames() }
        return ServedNames(
            upstream.atEachAddress.flatMap { address in
                let usual: [UInt16: UInt16] = [443: 80, 80: 443]
                return [address.port, usual[address.port]].compactMap { $0 }.map { "\(address.hostInURL):\($0)" }
            })
    }
}

/// For which of several APIs a whole URI is.
struct ProxiedAPIs {
    private let served: ServedAPIs
    /// Of those that any URI can mean.
    private let places: [Int]

    init(_ apis: [ProxySettings]) {
        let known = apis.enumerated().filter { !$0.element.proxiedNames.isEmpty }
        places = known.map(\.offset)
        served = ServedAPIs(
            known.map { _, api in
                var scope = api.scope
                // What is left of `forwarding.names` is looked at where it comes in.
                if scope.names.isEmpty, api.access.names.isEmpty { scope.names = api.proxiedNames }
                return scope
            })
    }

    func choose(_ authority: [UInt8], _ target: ArraySlice<UInt8>) -> ServedAPIs.Choice {
        let choice = served.choose(authority[...], target)
        guard case .api(let place) = choice else { return choice }
        return .api(places[place])
    }
}

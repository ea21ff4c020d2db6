// Where several APIs are served: gives each request to the one that it is for (`ServedAPIs`).

import Addresses
import Downstream
import Forwarding
import HTTPCore

/// Touched on its shard's loop only.
public final class APIReceiver: RequestReceiver {
    private let apis: [ProxyShard]
    private let served: ServedAPIs
    /// nil where nobody takes this for a forward proxy.
    private let proxied: ProxiedAPIs?
    /// The one whose hits came again last: mostly the next do too.
    private var lastRepeated = 0

    /// - Parameter apis: one at least; the first also responds where there is none for a request.
    public init(_ apis: [ProxyShard]) {
        self.apis = apis
        served = ServedAPIs(apis.map(\.settings.scope))
        proxied = apis[0].process.settings.access.isForwardProxy ? ProxiedAPIs(apis.map(\.settings)) : nil
    }

    public func repeated(_ bytes: UnsafeRawBufferPointer, on stream: any ClientStream) -> Bool {
        // A request's bytes say which API it is for, so no two of them know the same ones.
        if apis[lastRepeated].repeated(bytes, on: stream) { return true }
        for place in apis.indices where place != lastRepeated && apis[place].repeated(bytes, on: stream) {
            lastRepeated = place
            return true
        }
        return false
    }

    public func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        let head = request.head
        if let proxied, let authority = ForwardProxyTarget.authority(of: head) {
            return received(request, by: proxied.choose(authority, head.pathAndQuery), orElse: .notProxied, on: stream)
        }
        return received(request, by: served.choose(head.host, head.pathAndQuery), orElse: .misdirected, on: stream)
    }

    private func received(
        _ request: ReceivedRequest, by choice: ServedAPIs.Choice, orElse reason: AccessRefusal, on stream: any ClientStream
    ) -> (any ClientExchange)? {
        switch choice {
        case .api(let place): return apis[place].received(request, on: stream)
        case .noHost: return apis[0].received(request, forNobody: reason, on: stream)
        case .noPath: return apis[0].received(request, forNobody: .noAPI, on: stream)
        }
    }

    public func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) { apis[0].refused(refusal, on: stream) }
}

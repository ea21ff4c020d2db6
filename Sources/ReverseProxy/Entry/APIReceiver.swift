// With several APIs: passes each request to the API that serves its host and path (`ServedAPIs`). A request that no API serves passes
// through the stages of the first, until the stage `api` refuses it.

import Addresses
import Downstream
import Forwarding
import HTTPCore

/// Used on its shard's loop only.
public final class APIReceiver: RequestReceiver {
    private let apis: [RequestEntry]
    private let served: ServedAPIs
    /// nil if clients may not use Cistern as a forward proxy.
    private let proxied: ProxiedAPIs?
    /// Index of the API that served the last repeated hit. It is tried first.
    private var lastRepeated = 0

    /// - Parameter apis: at least one. The first also responds to requests that no API serves.
    public init(_ apis: [RequestEntry]) {
        self.apis = apis
        served = ServedAPIs(apis.map(\.settings.scope))
        proxied = apis[0].context.api.process.settings.access.isForwardProxy ? ProxiedAPIs(apis.map(\.settings)) : nil
    }

    public func repeated(_ bytes: Span<UInt8>, on stream: any ClientStream) -> Bool {
        // The bytes of a request determine its API, so the memos of two APIs never contain the same request.
        if apis[lastRepeated].repeated(bytes, on: stream) { return true }
        for index in apis.indices where index != lastRepeated && apis[index].repeated(bytes, on: stream) {
            lastRepeated = index
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
        case .api(let index): return apis[index].received(request, on: stream)
        case .noHost: return apis[0].enter(request, noAPI: reason, on: stream)
        case .noPath: return apis[0].enter(request, noAPI: .noAPI, on: stream)
        }
    }

    public func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) { apis[0].refused(refusal, on: stream) }
}

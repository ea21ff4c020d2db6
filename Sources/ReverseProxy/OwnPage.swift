// The proxy's own pages: /metrics, /healthz, /readyz.

import Downstream
import Forwarding
import HTTPCore
import Reactor
import Telemetry

enum OwnPage {
    case metrics, healthz, readyz

    /// nil where the request is for something else.
    init?(_ head: RequestHead) {
        guard head.target.count == 7 || head.target.count == 8, head.method.isRead else { return nil }
        let bytes = head.target
        let target = bytes.span
        if target.equals("/metrics") {
            self = .metrics
        } else if target.equals("/healthz") {
            self = .healthz
        } else if target.equals("/readyz") {
            self = .readyz
        } else {
            return nil
        }
    }

    /// Responds at once, or returns the exchange that will.
    func respond(shard: ProxyShard, stream: any ClientStream, head: RequestHead) -> (any ClientExchange)? {
        var status: Status = 200
        defer { shard.countOwnPage(MethodLabel(head.method), status) }
        switch self {
        case .healthz: Self.send(status, "ok\n", shard, stream)
        case .readyz:
            if !shard.server.isReady { status = 503 }
            Self.send(status, status == 200 ? "ready\n" : "stopping\n", shard, stream)
        case .metrics: return MetricsExchange(shard: shard, stream: stream, accept: head.fields.combined(.accept))
        }
        return nil
    }

    private static func send(_ status: Status, _ text: String, _ shard: ProxyShard, _ stream: any ClientStream) {
        let response = OwnResponse(status: status, contentType: "text/plain; charset=utf-8", content: Array(text.utf8))
        stream.sendWhole(head: response.head(date: shard.date), body: .bytes(response.content))
    }
}

/// Waits for the page. `@unchecked Sendable` because it is touched on its shard's loop only; the pages' queue does no more than carry it back
/// there.
private final class MetricsExchange: ClientExchange, @unchecked Sendable {
    /// nil once it is answered, or the client is gone.
    private var stream: (any ClientStream)?

    init(shard: ProxyShard, stream: any ClientStream, accept: [UInt8]?) {
        self.stream = stream
        let format = MetricsFormat(accept: accept)
        shard.server.metricsPages.make(format, of: shard.server) { [self] page in
            let response = OwnResponse(status: 200, contentType: format.contentType, content: page)
            shard.loop.execute { self.send(response, date: shard.date) }
        }
    }

    private func send(_ response: OwnResponse, date: [UInt8]) {
        guard let stream else { return }
        self.stream = nil
        stream.sendWhole(head: response.head(date: date), body: .bytes(response.content))
    }

    func requestContent(_ bytes: Span<UInt8>) {}
    func requestEnded() {}
    func responseDrained() {}
    func clientLeft() { stream = nil }
}

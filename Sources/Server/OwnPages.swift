// The proxy's own pages: /healthz shows that the process runs, /readyz that it accepts requests, /metrics all counters.

import Downstream
import Figures
import Forwarding
import HTTPCore
import Reactor
import ReverseProxy

final class OwnPages: OwnPageSource, Sendable {
    private unowned let server: ProxyServer
    private let metricsPages = MetricsPages()

    init(_ server: ProxyServer) { self.server = server }

    func respond(
        with page: OwnPage, to head: RequestHead, on stream: any ClientStream, of entry: RequestEntry
    ) -> (any ClientExchange)? {
        var status: Status = 200
        defer { entry.reporting.countOwnPage(MethodLabel(head.method), status) }
        switch page {
        case .healthz: Self.send(status, "ok\n", entry, stream)
        case .readyz:
            if !server.isReady { status = 503 }
            Self.send(status, status == 200 ? "ready\n" : "stopping\n", entry, stream)
        case .metrics:
            let format = MetricsFormat(accept: head.fields.combined(.accept))
            let exchange = OwnExchange(stream, isRequest: false)
            let acceptsGzip = AcceptedCoding.accepts(.gzip, in: head.fields)
            metricsPages.make(format, acceptsGzip: acceptsGzip, of: server) { page in
                var response = OwnResponse(status: 200, contentType: format.contentType, content: page.content)
                // RFC 9110 §12.5.5: without Vary, an intermediate cache may serve either coding to every client.
                response.fieldLines = Array("Vary: Accept, Accept-Encoding\r\n".utf8)
                if page.isCompressed { response.fieldLines.append("Content-Encoding: gzip\r\n") }
                entry.loop.execute { [response] in _ = exchange.send(response, date: entry.date) }
            }
            return exchange
        }
        return nil
    }

    private static func send(_ status: Status, _ text: String, _ entry: RequestEntry, _ stream: any ClientStream) {
        let response = OwnResponse(status: status, contentType: "text/plain; charset=utf-8", content: Array(text.utf8))
        stream.sendWhole(head: response.head(date: entry.date), body: .bytes(response.content))
    }
}

/// Waits for a response that another queue makes. `@unchecked Sendable` because it is used on its shard's loop only; the queue only
/// passes it back to that loop.
final class OwnExchange: ClientExchange, @unchecked Sendable {
    /// nil once the response is sent, or the client has disconnected.
    private var stream: (any ClientStream)?
    let isRequest: Bool

    init(_ stream: any ClientStream, isRequest: Bool = true) { (self.stream, self.isRequest) = (stream, isRequest) }

    /// Returns false if the client has disconnected.
    func send(_ response: OwnResponse, date: [UInt8]) -> Bool {
        guard let stream else { return false }
        self.stream = nil
        stream.sendWhole(head: response.head(date: date), body: .bytes(response.content))
        return true
    }

    func requestContent(_ bytes: Span<UInt8>) {}
    func requestEnded() {}
    func responseDrained() {}
    func clientLeft() { stream = nil }
}

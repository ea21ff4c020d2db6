// Generates the page at /metrics off the event loops, because a page with a thousand routes takes long. Requests that arrive while a page
// is generated share the next one. So the cost is bounded by one thread, however often the page is requested.

import ContentCodings
import Figures
import Reactor
import ResponseCache
import ReverseProxy
import TakeOver

final class MetricsPages: Sendable {
    typealias Reply = @Sendable (Page) -> Void

    struct Page: Sendable {
        let content: [UInt8]
        var isCompressed = false
    }

    private struct Request {
        let format: MetricsFormat
        let acceptsGzip: Bool
        let reply: Reply
    }

    private struct State {
        var waiting: [Request] = []
        var isMaking = false
    }

    /// Accessed by all shards.
    private let state = Mutex(State())

    /// - Parameters:
    ///   - acceptsGzip: whether the client accepts the gzip coding.
    ///   - reply: called once, on the pages' queue.
    func make(_ format: MetricsFormat, acceptsGzip: Bool, of server: ProxyServer, reply: @escaping Reply) {
        let isFirst = state.withLock { state in
            state.waiting.append(Request(format: format, acceptsGzip: acceptsGzip, reply: reply))
            defer { state.isMaking = true }
            return !state.isMaking
        }
        if isFirst { makeNext(server) }
    }

    /// Generates the pages for the requests that wait now. Their counts are collected after these requests arrived.
    private func makeNext(_ server: ProxyServer) {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.isMaking = !state.waiting.isEmpty
            return state.waiting
        }
        guard !waiting.isEmpty else { return }
        server.collectMetrics { [self] snapshot in
            let figures = server.cacheFigures
            let peer = server.process.peer
            for format in [MetricsFormat.prometheus, .openMetrics] {
                let asking = waiting.filter { $0.format == format }
                // The process that takes over receives the counts before any client sees them.
                let isForPeer = format == .prometheus && peer.isSuccessor
                guard !asking.isEmpty || isForPeer else { continue }
                let page = MetricsPage.render(snapshot, format: format) { figures.write(to: &$0) }
                if isForPeer { peer.send(.counts(page)) }
                let compressed = asking.contains(where: \.acceptsGzip) ? compress(page) : nil
                peer.whenKnown {
                    for one in asking { one.reply(one.acceptsGzip ? compressed ?? Page(content: page) : Page(content: page)) }
                }
            }
            makeNext(server)
        }
    }

    /// Returns nil if memory cannot be allocated.
    private func compress(_ page: [UInt8]) -> Page? {
        // Allocated for each scrape: scrapes are rare, and it takes a quarter of a megabyte.
        page.withUnsafeBytes { GzipEncoder().encode($0) }.map { Page(content: $0, isCompressed: true) }
    }
}

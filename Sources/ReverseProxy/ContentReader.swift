// Holds a request's content until it is whole, where the key is made of it: QUERY, and POST on a route that only reads. What is longer than
// the route's limit is passed on as it comes, and its answer is not kept.

import CachePolicy
import Downstream
import HTTPCore

final class ContentReader: ClientExchange {
    private let shard: ProxyShard
    private let connection: ClientConnection
    private let head: RequestHead
    private let framing: ContentFraming
    private let route: Route
    private var content: [UInt8] = []
    /// Set when it is known what becomes of the request; from then on everything goes there.
    private var exchange: (any ClientExchange)?

    init(shard: ProxyShard, connection: ClientConnection, head: RequestHead, framing: ContentFraming, route: Route) {
        self.shard = shard
        self.connection = connection
        self.head = head
        self.framing = framing
        self.route = route
    }

    func requestContent(_ bytes: Span<UInt8>) {
        if let exchange { return exchange.requestContent(bytes) }
        guard content.count + bytes.count > route.contentLimitBytes else { return content.append(copying: bytes) }
        goOn(shard.pass(head, framing, connection), isWhole: false)
        exchange?.requestContent(bytes)
    }

    func requestEnded() {
        if let exchange { return exchange.requestEnded() }
        let whole = content
        let identity = RequestContent.identity(method: head.method, fields: head.fields, content: whole.span, rules: route.arguments)
        let length: ContentFraming = framing == .none ? .none : .length(content.count)
        guard let identity else { return goOn(shard.pass(head, length, connection), isWhole: true) }
        goOn(shard.look(head, length, connection, content: identity + invalidated), isWhole: true)
    }

    /// When an unsafe request last made the target invalid: part of the key, since what lies under all contents cannot be searched for
    /// (RFC 9111 §4.4).
    private var invalidated: [UInt8] {
        let shared = shard.sharedKey(of: Array(head.pathAndQuery), for: head)
        guard let time = shard.lookUp?.invalidationTime(shared) else { return [] }
        return withUnsafeBytes(of: time.milliseconds.littleEndian) { Array($0) }
    }

    func responseDrained() { exchange?.responseDrained() }

    func clientLeft() { exchange?.clientLeft() }

    private func goOn(_ next: (any ClientExchange)?, isWhole: Bool) {
        exchange = next
        let held = content
        content = []
        if !held.isEmpty { next?.requestContent(held.span) }
        if isWhole { next?.requestEnded() }
    }
}

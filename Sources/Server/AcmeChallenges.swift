// Responses to an authority that wants to see whether a name is ours (RFC 8555 §8.3): the files that an ACME client has put into a directory.

import Descriptors
import Dispatch
import Downstream
import Forwarding
import HTTPCore
import Reactor
import ReverseProxy
import Telemetry

/// `@unchecked Sendable` because nothing changes after `init`.
final class AcmeChallenges: OwnFileSource, @unchecked Sendable {
    private let directory: String
    /// Reading waits for the disk.
    private let queue = DispatchQueue(label: "cistern.challenges")

    /// A key authorization is a token and a hash: well below this.
    private static let limitBytes = 4_096

    init(directory: String) { self.directory = directory }

    func respond(with token: String, to head: RequestHead, on stream: any ClientStream, of shard: ProxyShard) -> any ClientExchange {
        let exchange = FileExchange(stream, MethodLabel(head.method))
        queue.async { [directory] in
            let content = FileContent.read("\(directory)/\(token)", limit: Self.limitBytes, .own)
            let response =
                content.map { OwnResponse(status: 200, contentType: "application/octet-stream", content: $0) }
                ?? OwnResponse(status: 404, contentType: "text/plain; charset=utf-8", content: Array("There is no such challenge.\n".utf8))
            shard.loop.execute { exchange.send(response, of: shard) }
        }
        return exchange
    }
}

/// Waits for the file. `@unchecked Sendable` because it is touched on its shard's loop only; the queue does no more than carry it back there.
private final class FileExchange: ClientExchange, @unchecked Sendable {
    /// nil once the response is sent, or the client is gone.
    private var stream: (any ClientStream)?

    private let method: MethodLabel

    init(_ stream: any ClientStream, _ method: MethodLabel) { (self.stream, self.method) = (stream, method) }

    func send(_ response: OwnResponse, of shard: ProxyShard) {
        guard let stream else { return }
        self.stream = nil
        stream.sendWhole(head: response.head(date: shard.date), body: .bytes(response.content))
        shard.countOwnPage(method, response.status)
    }

    func requestContent(_ bytes: Span<UInt8>) {}
    func requestEnded() {}
    func responseDrained() {}
    func clientLeft() { stream = nil }
}

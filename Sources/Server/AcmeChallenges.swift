// Responses to the ACME HTTP challenge (RFC 8555 §8.3), read from the directory to which an ACME client writes its challenge files.

import Dispatch
import Downstream
import Figures
import Forwarding
import HTTPCore
import Reactor
import ReverseProxy

/// `@unchecked Sendable` because nothing changes after `init`.
final class AcmeChallenges: OwnFileSource, @unchecked Sendable {
    private let directory: String
    /// Queue for reading, because reading waits for the disk.
    private let queue = DispatchQueue(label: "cistern.challenges")

    /// Maximum number of files that wait to be read, over all shards. Further requests get 503, because the path is public and a disk may
    /// hang.
    static let waitingLimit = 64
    /// Number of waiting files. Increased on all loops, decreased on the queue.
    private let waiting = Mutex(0)

    /// Maximum file size in bytes. A key authorization, which is a token and a hash, is much shorter.
    private static let limitBytes = 4_096

    init(directory: String) { self.directory = directory }

    func respond(with token: String, to head: RequestHead, on stream: any ClientStream, of entry: RequestEntry) -> any ClientExchange {
        let exchange = OwnExchange(stream)
        let method = MethodLabel(head.method)
        let send = { @Sendable (response: OwnResponse) in
            if exchange.send(response, date: entry.date) { entry.reporting.countOwnPage(method, response.status) }
        }
        guard enter() else {
            send(Self.crowded)
            return exchange
        }
        queue.async { [self, directory] in
            let content = FileContent.read("\(directory)/\(token)", limit: Self.limitBytes, .own)
            let response =
                content.map { OwnResponse(status: 200, contentType: "application/octet-stream", content: $0) }
                ?? OwnResponse(
                    status: 404, contentType: "text/plain; charset=utf-8",
                    content: Array("No ACME challenge has this name in tls.acme_challenges.\n".utf8))
            waiting.withLock { $0 -= 1 }
            entry.loop.execute { send(response) }
        }
        return exchange
    }

    private func enter() -> Bool {
        waiting.withLock { waiting in
            guard waiting < Self.waitingLimit else { return false }
            waiting += 1
            return true
        }
    }

    private static var crowded: OwnResponse {
        var response = OwnResponse(status: 503, sentence: "Too many ACME challenges are being read. Repeat the request later.", accept: nil)
        response.fieldLines = Array("Retry-After: 1\r\n".utf8)
        return response
    }
}

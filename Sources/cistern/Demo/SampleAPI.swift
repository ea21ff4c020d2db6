// The sample API of `cistern demo`, and its control port, which simulates outages: the API's port is then closed, and connections are
// refused. `SampleResources` makes the responses.

import Dispatch
import Downstream
import HTTPCore
import Reactor

/// `@unchecked Sendable` because mutable state is confined to `loop` after `init`.
final class SampleAPI: @unchecked Sendable {
    let port: UInt16
    let controlPort: UInt16
    /// Key set (JWKS) that verifies the tokens of its logins.
    var keySet: String { resources.login.keySet }
    private let loop = EventLoop(label: "cistern.sample")
    private let connections: ClientConnections
    private let controlConnections: ClientConnections
    private let address: ListenAddress
    private let resources: SampleResources
    private let receiver: SampleReceiver
    private var listener: Listener?
    private var controlListener: Listener?

    init() throws {
        let socket = try BoundSocket(.ipv4(host: "127.0.0.1", port: 0), backlog: 128)
        let controlSocket = try BoundSocket(.ipv4(host: "127.0.0.1", port: 0), backlog: 16)
        address = socket.address
        port = Self.port(of: socket.address)
        controlPort = Self.port(of: controlSocket.address)
        connections = ClientConnections(loop: loop, settings: DownstreamSettings())
        controlConnections = ClientConnections(loop: loop, settings: DownstreamSettings())
        let resources = try SampleResources()
        self.resources = resources
        receiver = SampleReceiver { resources.respond(to: $0) }
        listener = Listener(loop: loop, socket: socket, connections: connections, receiver: receiver)
        controlListener = Listener(
            loop: loop, socket: controlSocket, connections: controlConnections,
            receiver: SampleReceiver { [unowned self] in control($0) })
    }

    private static func port(of address: ListenAddress) -> UInt16 {
        if case .ipv4(_, let port) = address { port } else { 0 }
    }

    func start() {
        loop.execute { [self] in
            connections.start()
            controlConnections.start()
            listener?.start()
            controlListener?.start()
        }
        loop.start()
    }

    func stop() {
        loop.stop { [self] in
            listener?.close()
            controlListener?.close()
        }
    }

    /// Opens or closes the API's port, and waits until that is done.
    func turn(on isUp: Bool) {
        let done = DispatchSemaphore(value: 0)
        loop.execute { [self] in
            _ = setUp(isUp)
            done.signal()
        }
        done.wait()
    }

    /// Opens or closes the API's port. Must be called on the loop.
    /// - Returns: whether the port is open now.
    private func setUp(_ isUp: Bool) -> Bool {
        guard isUp != (listener != nil) else { return isUp }
        guard isUp else {
            listener?.close()
            connections.closeAll()
            listener = nil
            return false
        }
        guard let socket = try? BoundSocket(address, backlog: 128) else { return false }
        let listener = Listener(loop: loop, socket: socket, connections: connections, receiver: receiver)
        listener.start()
        self.listener = listener
        return true
    }

    /// Responds to a request to the control port.
    private func control(_ request: SampleRequest) -> SampleResponse {
        switch (request.method, request.path) {
        case ("POST", "/down"), ("POST", "/up"):
            let isUp = setUp(request.path == "/up")
            return SampleResponse(text: isUp ? "The sample API is up.\n" : "The sample API is down.\n")
        default: return SampleResponse(404, text: "POST /down and POST /up stop and start the sample API.\n")
        }
    }
}

// MARK: Requests and responses

struct SampleRequest {
    let method: String
    let path: String
    let arguments: [(name: String, value: String)]
    let fields: Fields
    /// Arguments of a form; empty for other content.
    let form: [(name: String, value: String)]

    init(_ head: RequestHead, content: [UInt8]) {
        method = String(decoding: head.method.bytes, as: UTF8.self)
        let target = String(decoding: head.target, as: UTF8.self)
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        path = String(parts[0])
        arguments = parts.count > 1 ? Self.pairs(parts[1]) : []
        fields = head.fields
        form = Self.pairs(Substring(decoding: content, as: UTF8.self))
    }

    func field(_ name: StaticString) -> String? { fields.all(named: name).first.map { String(decoding: $0, as: UTF8.self) } }

    private static func pairs(_ text: Substring) -> [(name: String, value: String)] {
        text.split(separator: "&").map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return (String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
        }
    }
}

struct SampleResponse {
    let status: Status
    let type: String
    let content: String
    /// Additional field lines, each with CRLF.
    var lines = ""

    init(_ status: Status = 200, json: String, _ lines: String = "") {
        (self.status, type, content, self.lines) = (status, "application/json", json + "\n", lines)
    }

    init(_ status: Status = 200, type: String = "text/plain", text: String) {
        (self.status, self.type, content) = (status, type, text)
    }

    fileprivate func send(_ stream: any ClientStream) {
        var head: [UInt8] = []
        ResponseSerializer.appendStatusLine(status, reason: [], to: &head)
        head += Array("Content-Type: \(type)\r\nContent-Length: \(content.utf8.count)\r\n\(lines)".utf8)
        stream.sendWhole(head: head, body: .bytes(Array(content.utf8)))
    }
}

private final class SampleReceiver: RequestReceiver {
    private let respond: (SampleRequest) -> SampleResponse

    init(_ respond: @escaping (SampleRequest) -> SampleResponse) { self.respond = respond }

    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        guard request.framing != .none else {
            respond(SampleRequest(request.head, content: [])).send(stream)
            return nil
        }
        stream.startContentTotal()
        stream.sendContinue()
        return SampleExchange(request.head, stream, respond)
    }

    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {}
}

private final class SampleExchange: ClientExchange {
    private let head: RequestHead
    private let respond: (SampleRequest) -> SampleResponse
    /// nil after the response, or after the client has left.
    private var stream: (any ClientStream)?
    private var content: [UInt8] = []
    /// More content is ignored.
    private static let contentLimit = 4_096

    init(_ head: RequestHead, _ stream: any ClientStream, _ respond: @escaping (SampleRequest) -> SampleResponse) {
        (self.head, self.stream, self.respond) = (head, stream, respond)
    }

    func requestContent(_ bytes: Span<UInt8>) {
        if content.count + bytes.count <= Self.contentLimit { content.append(copying: bytes) }
    }

    func requestEnded() {
        if let stream { respond(SampleRequest(head, content: content)).send(stream) }
        stream = nil
    }

    func responseDrained() {}
    func clientLeft() { stream = nil }
}

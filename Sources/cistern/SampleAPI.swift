// The sample API of `cistern demo`: users, posts by user, a sum service and an HTML page, built on our own listener. It can be taken down:
// then its port is closed, and connecting to it is refused.

import Downstream
import HTTPCore
import Reactor

/// `@unchecked Sendable` because what changes after `init` is touched on `loop` only.
final class SampleAPI: @unchecked Sendable {
    let port: UInt16
    let controlPort: UInt16
    private let loop = EventLoop(label: "cistern.sample")
    private let connections: ClientConnections
    private let controlConnections: ClientConnections
    private let address: ListenAddress
    private var listener: Listener?
    private var control: Listener?

    init() throws {
        let socket = try BoundSocket(.ipv4(host: "127.0.0.1", port: 0), backlog: 128)
        let controlSocket = try BoundSocket(.ipv4(host: "127.0.0.1", port: 0), backlog: 16)
        address = socket.address
        port = Self.port(of: socket.address)
        controlPort = Self.port(of: controlSocket.address)
        connections = ClientConnections(loop: loop, settings: DownstreamSettings())
        controlConnections = ClientConnections(loop: loop, settings: DownstreamSettings())
        listener = Listener(loop: loop, socket: socket, connections: connections, receiver: SampleResources())
        control = Listener(loop: loop, socket: controlSocket, connections: controlConnections, receiver: SampleControl(api: self))
    }

    private static func port(of address: ListenAddress) -> UInt16 {
        if case .ipv4(_, let port) = address { port } else { 0 }
    }

    func start() {
        loop.execute { [self] in
            connections.start()
            controlConnections.start()
            listener?.start()
            control?.start()
        }
        loop.start()
    }

    func stop() {
        loop.stop { [self] in
            listener?.close()
            control?.close()
        }
    }

    /// Down if it was up, up if it was down; returns whether it is up now. On the loop.
    fileprivate func toggle() -> Bool {
        if let listener {
            listener.close()
            connections.closeAll()
            self.listener = nil
            return false
        }
        guard let socket = try? BoundSocket(address, backlog: 128) else { return false }
        let listener = Listener(loop: loop, socket: socket, connections: connections, receiver: SampleResources())
        listener.start()
        self.listener = listener
        return true
    }
}

/// What the sample API responds with.
private final class SampleResources: RequestReceiver {
    private static let users = [("Ada", "ada@example.com"), ("Grace", "grace@example.com"), ("Barbara", "barbara@example.com")]

    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        let head = request.head
        let target = String(decoding: head.target, as: UTF8.self)
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts[0].split(separator: "/").map(String.init)
        let arguments = parts.count > 1 ? Self.arguments(String(parts[1])) : []
        switch path.first {
        case "users": sendUsers(path, stream)
        case "posts": sendPosts(arguments, stream)
        case "sum": sendSum(arguments, stream)
        case nil, "index.html":
            SampleResponse.send(200, "text/html", "<h1>Sample API</h1><p>/users /posts?userId=1 /sum?a=2&amp;b=4</p>\n", stream)
        default: SampleResponse.send(404, "application/json", "{\"error\":\"not found\"}\n", stream)
        }
        return nil
    }

    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {}

    private static func arguments(_ query: String) -> [(name: String, value: String)] {
        query.split(separator: "&").map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return (String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
        }
    }

    private static func user(_ number: Int) -> String {
        "{\"id\":\(number),\"name\":\"\(users[number - 1].0)\",\"email\":\"\(users[number - 1].1)\"}"
    }

    private func sendUsers(_ path: [String], _ stream: any ClientStream) {
        if path.count == 1 {
            let all = (1...Self.users.count).map(Self.user).joined(separator: ",")
            return SampleResponse.send(200, "application/json", "[\(all)]\n", stream)
        }
        guard path.count == 2, let number = Int(path[1]), (1...Self.users.count).contains(number) else {
            return SampleResponse.send(404, "application/json", "{\"error\":\"no such user\"}\n", stream)
        }
        SampleResponse.send(200, "application/json", Self.user(number) + "\n", stream)
    }

    private func sendPosts(_ arguments: [(name: String, value: String)], _ stream: any ClientStream) {
        let user = arguments.first { $0.name == "userId" }.flatMap { Int($0.value) }
        let posts = (1...6).filter { user == nil || ($0 - 1) / 2 + 1 == user }
            .map { "{\"id\":\($0),\"userId\":\(($0 - 1) / 2 + 1),\"title\":\"Post \($0)\"}" }.joined(separator: ",")
        SampleResponse.send(200, "application/json", "[\(posts)]\n", stream, extra: "Cache-Control: max-age=60\r\n")
    }

    private func sendSum(_ arguments: [(name: String, value: String)], _ stream: any ClientStream) {
        let numbers = arguments.compactMap { Double($0.value) }
        guard numbers.count == arguments.count, !numbers.isEmpty else {
            return SampleResponse.send(400, "application/json", "{\"error\":\"numbers only\"}\n", stream)
        }
        SampleResponse.send(200, "application/json", "{\"sum\":\(numbers.reduce(0, +))}\n", stream)
    }
}

/// Takes the sample API down and up again.
private final class SampleControl: RequestReceiver {
    private unowned let api: SampleAPI

    init(api: SampleAPI) { self.api = api }

    func received(_ request: ReceivedRequest, on stream: any ClientStream) -> (any ClientExchange)? {
        let head = request.head
        guard head.method == .post, head.target.elementsEqual("/toggle".utf8) else {
            SampleResponse.send(404, "text/plain", "POST /toggle takes the sample API down and up again.\n", stream)
            return nil
        }
        let isUp = api.toggle()
        SampleResponse.send(200, "text/plain", isUp ? "The sample API is up.\n" : "The sample API is down.\n", stream)
        return nil
    }

    func refused(_ refusal: RequestRejection.Kind, on stream: any ClientStream) {}
}

private enum SampleResponse {
    static func send(_ status: Status, _ type: String, _ text: String, _ stream: any ClientStream, extra: String = "") {
        var head: [UInt8] = []
        ResponseSerializer.appendStatusLine(status, reason: [], to: &head)
        head += Array("Content-Type: \(type)\r\nContent-Length: \(text.utf8.count)\r\n\(extra)".utf8)
        stream.sendWhole(head: head, body: .bytes(Array(text.utf8)))
    }
}

// A blocking HTTP/1.1 client for plays, over a real socket. It can send arbitrary bytes, also invalid requests.

import CSystem
import Downstream
import Glibc

/// A received response.
package struct TestResponse {
    package var statusLine: String
    package var fields: [(name: String, value: String)]
    package var content: [UInt8]
    /// Status lines of preceding 1xx responses.
    package var informational: [String] = []
    /// Whether the content ended as its framing declares.
    package var isComplete = true

    package var status: Int { Int(statusLine.split(separator: " ").dropFirst().first ?? "") ?? 0 }
    package var text: String { String(decoding: content, as: UTF8.self) }

    package subscript(_ name: String) -> String? {
        fields.first { $0.name.lowercased() == name.lowercased() }?.value
    }

    package func all(_ name: String) -> [String] {
        fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }
}

/// A connection to a loopback server. Each wait ends after `patience` seconds, so that a failing play does not hang.
package final class TestClient {
    package let descriptor: Int32
    private var buffer: [UInt8] = []
    /// Buffer for received bytes.
    private var piece = [UInt8](repeating: 0, count: 65_536)
    private var reachedEnd = false
    /// nil without TLS.
    package private(set) var tls: TLSClientSide?

    /// The step that failed, and errno after it.
    package struct NoConnection: Error {
        let step: String
        let number: Int32

        package init(_ step: String) { (self.step, number) = (step, errno) }
    }

    /// - Parameter source: loopback address of the client; nil to let the kernel choose.
    package convenience init(port: UInt16, patience: Int = 20, from source: String? = nil) throws {
        try self.init(.ipv4(host: "127.0.0.1", port: port), patience: patience, from: source)
    }

    /// Connects with TLS.
    package convenience init(port: UInt16, _ offer: TLSOffer) throws {
        try self.init(port: port)
        try secure(offer)
    }

    /// Starts TLS on the connection.
    package func secure(_ offer: TLSOffer = TLSOffer()) throws {
        guard let tls = TLSClientSide(offer, descriptor) else { throw NoConnection("TLS handshake") }
        self.tls = tls
    }

    package init(_ address: ListenAddress, patience: Int = 20, from source: String? = nil) throws {
        descriptor = socket(address.family, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        if let source {
            guard ListenAddress.ipv4(host: source, port: 0).withSocketAddress({ bind(descriptor, $0, $1) == 0 }) else {
                throw NoConnection("bind")
            }
        }
        // The object is initialized, so deinit closes the descriptor.
        guard address.withSocketAddress({ connect(descriptor, $0, $1) == 0 }) else { throw NoConnection("connect") }
        var limit = timeval(tv_sec: patience, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var one: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close(descriptor) }

    package func send(_ text: String) { send(Array(text.utf8)) }

    package func send(_ bytes: [UInt8]) {
        if let tls { return tls.send(bytes) }
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            sent += count
        }
    }

    /// Ends the sending direction. Responses can still be read.
    package func finishSending() {
        tls?.finishSending()
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// The server's descriptor of the connection, if the server is in this process; otherwise nil.
    package var serverDescriptor: Int32? {
        typealias Asked = (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
        func name(_ descriptor: Int32, _ of: Asked) -> [UInt8] {
            var storage = sockaddr_storage()
            var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let result = withUnsafeMutableBytes(of: &storage) {
                of(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, &length)
            }
            return result == 0 ? withUnsafeBytes(of: storage) { Array($0.prefix(Int(length))) } : []
        }
        let own = name(descriptor, getsockname)
        return (0..<Int32(65_536)).first { $0 != descriptor && name($0, getpeername) == own }
    }

    /// Makes the close reset the connection, which the server notices at once.
    package func endsWithReset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Sends a request without content, or with `content` and its Content-Length, and reads the response.
    package func request(_ method: String, _ target: String, _ fields: [(String, String)] = [], content: String? = nil) -> TestResponse? {
        var text = "\(method) \(target) HTTP/1.1\r\n"
        if !fields.contains(where: { $0.0.lowercased() == "host" }) { text += "Host: cistern.test\r\n" }
        for (name, value) in fields { text += "\(name): \(value)\r\n" }
        if let content { text += "Content-Length: \(content.utf8.count)\r\n" }
        send(text + "\r\n" + (content ?? ""))
        return readResponse(toHead: method == "HEAD")
    }

    package func get(_ target: String, _ fields: [(String, String)] = []) -> TestResponse? { request("GET", target, fields) }

    /// Reads a final response; nil if the connection ends without one.
    package func readResponse(toHead: Bool = false) -> TestResponse? {
        var informational: [String] = []
        while var answer = readResponseHead() {
            if (100..<200).contains(answer.status) {
                informational.append(answer.statusLine)
                continue
            }
            answer.informational = informational
            if !toHead, answer.status != 204, answer.status != 304 { readContent(of: &answer) }
            return answer
        }
        return nil
    }

    /// Reads a response's head, including 1xx; nil if the connection ends without one.
    package func readResponseHead() -> TestResponse? {
        guard let head = readHead() else { return nil }
        var lines = head.split(separator: "\r\n", omittingEmptySubsequences: false).map(String.init)
        let statusLine = lines.removeFirst()
        let fields = lines.compactMap { line -> (name: String, value: String)? in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            return (String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " }))
        }
        return TestResponse(statusLine: statusLine, fields: fields, content: [])
    }

    /// Reads this number of bytes; fewer at the end of the connection.
    package func read(_ count: Int) -> [UInt8] {
        while buffer.count < count, fill() {}
        defer { buffer.removeFirst(min(count, buffer.count)) }
        return Array(buffer.prefix(count))
    }

    /// Whether input is available within this time.
    package func hasInput(within milliseconds: Int32) -> Bool {
        if buffer.isEmpty, let tls { return tls.hasInput(within: milliseconds) }
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return !buffer.isEmpty || poll(&waiting, 1, milliseconds) > 0
    }

    /// Reads until the server closes.
    package func readToEnd() -> [UInt8] {
        while fill() {}
        defer { buffer = [] }
        return buffer
    }

    /// Reads until the server closes; false after a timeout.
    package func isClosedByServer() -> Bool {
        while fill() {}
        return reachedEnd
    }

    private func readHead() -> String? {
        while true {
            if let end = TestTools.index(of: "\r\n\r\n", in: buffer) {
                let head = String(decoding: buffer[..<end], as: UTF8.self)
                buffer.removeSubrange(..<(end + 4))
                return head
            }
            guard fill() else { return nil }
        }
    }

    private func readContent(of answer: inout TestResponse) {
        if answer["Transfer-Encoding"]?.lowercased() == "chunked" {
            readChunks(into: &answer)
        } else if let length = answer["Content-Length"].flatMap(Int.init) {
            while buffer.count < length, fill() {}
            answer.isComplete = buffer.count >= length
            answer.content = Array(buffer.prefix(length))
            buffer.removeFirst(min(length, buffer.count))
        } else {
            answer.content = readToEnd()
        }
    }

    /// Reads a chunk after a head that was read with `toHead`; empty at the end, nil if the connection ended early.
    package func readChunk() -> [UInt8]? {
        guard let line = readLine(), let size = Int(line, radix: 16) else { return nil }
        while buffer.count < size + 2, fill() {}
        guard buffer.count >= size + 2 else { return nil }
        defer { buffer.removeFirst(size + 2) }
        return Array(buffer[..<size])
    }

    private func readChunks(into answer: inout TestResponse) {
        while let chunk = readChunk() {
            if chunk.isEmpty { return }
            answer.content += chunk
        }
        answer.isComplete = false
    }

    private func readLine() -> String? {
        while true {
            if let end = TestTools.index(of: "\r\n", in: buffer) {
                let line = String(decoding: buffer[..<end], as: UTF8.self)
                buffer.removeSubrange(..<(end + 2))
                return line
            }
            guard fill() else { return nil }
        }
    }

    /// Available bytes; nil if no more come.
    package func receive() -> [UInt8]? {
        if buffer.isEmpty, !fill() { return nil }
        defer { buffer = [] }
        return buffer
    }

    private func fill() -> Bool {
        let count = tls?.receive(&piece) ?? recv(descriptor, &piece, piece.count, 0)
        guard count > 0 else {
            reachedEnd = count == 0 || errno == ECONNRESET
            return false
        }
        buffer += piece[..<count]
        return true
    }
}

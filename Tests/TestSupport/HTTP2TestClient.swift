// A blocking HTTP/2 client for plays, over a real socket, without TLS by prior knowledge or with TLS. Can have several requests in flight.

import CSystem
import Glibc
import HTTP2

package final class HTTP2TestClient: HTTP2SessionDelegate {
    package let socket: TestClient
    private let session: HTTP2Session
    private var streams: [Int32: Stream] = [:]
    private var isEnded = false
    /// The received GOAWAY; nil if none has arrived.
    package private(set) var goAway: (last: Int32, code: HTTP2ErrorCode)?
    /// Whether received content is acknowledged at once by WINDOW_UPDATE.
    package var consumes = true

    private struct Stream {
        var response = TestResponse(statusLine: "", fields: [], content: [])
        var hasHead = false
        var hasEnded = false
        var code: HTTP2ErrorCode?
        var content: [UInt8] = []
        var isContentWhole = true
        var unconsumed = 0
    }

    package init(
        port: UInt16, isSecured: Bool = false, patience: Int = 20, _ settings: HTTP2SessionSettings = HTTP2SessionSettings()
    ) throws {
        socket = try TestClient(port: port, patience: patience)
        if isSecured {
            var offer = TLSOffer()
            offer.protocols = ["h2", "http/1.1"]
            try socket.secure(offer)
        }
        var settings = settings
        settings.fieldLimits = HTTP2FieldLimits(bytes: 1 << 20, count: 10_000)
        session = try HTTP2Session(.client, settings)
        flush()
    }

    // MARK: Requests

    /// Sends a request like `TestClient`, and waits for its response; nil if the stream or the connection ends without one.
    package func request(_ method: String, _ target: String, _ fields: [(String, String)] = [], content: String? = nil) -> TestResponse? {
        guard let stream = begin(method, target, fields, content: content) else { return nil }
        return response(of: stream)
    }

    package func get(_ target: String, _ fields: [(String, String)] = []) -> TestResponse? { request("GET", target, fields) }

    /// Sends a request without waiting.
    /// - Parameter isOpen: whether `send` will add content.
    package func begin(
        _ method: String, _ target: String, _ fields: [(String, String)] = [], content: String? = nil, isOpen: Bool = false
    ) -> Int32? {
        var lines = [(":method", method), (":scheme", socket.tls == nil ? "http" : "https"), (":path", target)]
        lines.append((":authority", fields.first { $0.0.lowercased() == "host" }?.1 ?? "cistern.test"))
        lines += fields.filter { $0.0.lowercased() != "host" && $0.0.lowercased() != "connection" }
        if let content, !isOpen { lines.append(("content-length", String(content.utf8.count))) }
        return begin(lines, content: content.map { Array($0.utf8) }, isOpen: isOpen)
    }

    /// Sends a request with exactly these field lines.
    package func begin(_ lines: [(String, String)], content: [UInt8]? = nil, isOpen: Bool = false) -> Int32? {
        var list = HTTP2FieldList()
        for (name, value) in lines { list.append(name, value) }
        guard let number = session.submitRequest(list, hasContent: isOpen || content?.isEmpty == false) else { return nil }
        var stream = Stream()
        stream.content = content ?? []
        stream.isContentWhole = !isOpen
        streams[number] = stream
        flush()
        return number
    }

    /// Sends more content of a request.
    package func send(_ bytes: [UInt8], on number: Int32, isLast: Bool) {
        streams[number]?.content += bytes
        streams[number]?.isContentWhole = isLast
        session.resumeContent(of: number)
        flush()
    }

    package func reset(_ number: Int32, _ code: HTTP2ErrorCode = .cancel) {
        session.reset(number, code)
        flush()
    }

    package func ping() {
        session.ping()
        flush()
    }

    /// Acknowledges a stream's withheld content by WINDOW_UPDATE.
    package func consume(_ number: Int32) {
        session.consume(streams[number]?.unconsumed ?? 0, on: number)
        streams[number]?.unconsumed = 0
        flush()
    }

    // MARK: Waiting

    /// Waits until a stream has ended; nil if it ended before the response's head.
    package func response(of number: Int32) -> TestResponse? {
        while let stream = streams[number], stream.code == nil, !stream.hasEnded { guard step() else { break } }
        guard let stream = streams[number], stream.hasHead else { return nil }
        var response = stream.response
        response.isComplete = stream.hasEnded
        return response
    }

    /// Waits until a response has this much content, or its stream has ended.
    package func content(of number: Int32, atLeast count: Int) -> [UInt8] {
        while let stream = streams[number], stream.code == nil, !stream.hasEnded, stream.response.content.count < count {
            guard step() else { break }
        }
        return streams[number]?.response.content ?? []
    }

    /// Waits for a response's head; nil if the stream ends without one.
    package func head(of number: Int32) -> TestResponse? {
        while let stream = streams[number], stream.code == nil, !stream.hasHead { guard step() else { break } }
        return streams[number].flatMap { $0.hasHead ? $0.response : nil }
    }

    /// Waits for the end of a stream, and returns its error code.
    package func resetCode(of number: Int32) -> HTTP2ErrorCode? {
        while let stream = streams[number], stream.code == nil { guard step() else { break } }
        return streams[number]?.code
    }

    /// Waits until the server has closed the connection.
    package func isClosedByServer() -> Bool {
        while !isEnded, step() {}
        return socket.isClosedByServer()
    }

    /// Waits for a GOAWAY; nil if the connection ends without one.
    package func waitForGoAway() -> (last: Int32, code: HTTP2ErrorCode)? {
        while goAway == nil { guard step() else { break } }
        return goAway
    }

    /// Waits for input and processes it. Returns false at the end of the connection.
    private func step() -> Bool {
        guard let bytes = socket.receive(), !bytes.isEmpty else { return false }
        if bytes.withUnsafeBytes({ session.receive($0, notifying: self) }) == .ended { isEnded = true }
        flush()
        return true
    }

    package func flush() {
        while true {
            let piece = [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
                count = session.write(into: UnsafeMutableRawBufferPointer(buffer), notifying: self)
            }
            guard !piece.isEmpty else { return }
            socket.send(piece)
        }
    }

    // MARK: Callbacks of the session

    package func received(_ section: borrowing HTTP2FieldSection, _ kind: HTTP2SectionKind, on number: Int32, endsStream: Bool) {
        guard kind == .head else { return }
        let fields = section.entries.map { entry in
            (
                name: String(decoding: section.bytes[entry.nameRange], as: UTF8.self),
                value: String(decoding: section.bytes[entry.valueRange], as: UTF8.self)
            )
        }
        let statusLine = "HTTP/2 \(section.first(":status") ?? "")"
        let informational = statusLine.hasPrefix("HTTP/2 1")
        if informational {
            streams[number]?.response.informational.append(statusLine)
            return
        }
        streams[number]?.response.statusLine = statusLine
        streams[number]?.response.fields = fields.filter { !$0.name.hasPrefix(":") }
        streams[number]?.hasHead = true
        if endsStream { streams[number]?.hasEnded = true }
    }

    package func receivedContent(_ bytes: UnsafeRawBufferPointer, on number: Int32) {
        streams[number]?.response.content += bytes
        if consumes { session.consume(bytes.count, on: number) } else { streams[number]?.unconsumed += bytes.count }
    }

    package func receivedEnd(of number: Int32) { streams[number]?.hasEnded = true }
    package func streamClosed(_ number: Int32, _ code: HTTP2ErrorCode) { streams[number]?.code = code }
    package func receivedGoAway(last: Int32, _ code: HTTP2ErrorCode) { goAway = (last, code) }

    package func offerContent(of number: Int32, limit: Int) -> HTTP2ContentOffer {
        guard let stream = streams[number] else { return .broken }
        let count = min(limit, stream.content.count)
        if count == 0, !stream.isContentWhole { return .later }
        return .bytes(count, isLast: count == stream.content.count && stream.isContentWhole)
    }

    package func takeContent(of number: Int32, into buffer: UnsafeMutableRawBufferPointer) {
        streams[number]?.content[..<buffer.count].withUnsafeBytes { buffer.copyMemory(from: $0) }
        streams[number]?.content.removeFirst(buffer.count)
    }
}

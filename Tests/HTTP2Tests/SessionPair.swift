// A client session and a server session that exchange bytes in memory.

import HTTP2

/// Records its events, and provides content to send.
final class Side: HTTP2SessionDelegate {
    let session: HTTP2Session
    private(set) var events: [String] = []
    var content: [Int32: [UInt8]] = [:]
    /// Streams with more content later, but none now.
    var unfinished: Set<Int32> = []
    /// Trailers that follow the content of a stream.
    var trailers: [Int32: HTTP2FieldList] = [:]
    var received: [Int32: [UInt8]] = [:]
    /// Whether received content is consumed at once, which reopens the window.
    var consumes = true
    var onHead: (Int32) -> Void = { _ in }
    private var offered = 0

    init(_ role: HTTP2Session.Role, _ settings: HTTP2SessionSettings = HTTP2SessionSettings()) throws {
        session = try HTTP2Session(role, settings)
    }

    func received(_ section: borrowing HTTP2FieldSection, _ kind: HTTP2SectionKind, on stream: Int32, endsStream: Bool) {
        let text = section.entries.map { entry in
            String(decoding: section.bytes[entry.nameRange], as: UTF8.self) + "="
                + String(decoding: section.bytes[entry.valueRange], as: UTF8.self)
        }.joined(separator: " ")
        events.append("\(kind) \(stream) \(text)\(section.isTooLarge ? " too large" : "")\(endsStream ? " end" : "")")
        if kind == .head { onHead(stream) }
    }

    func receivedContent(_ bytes: UnsafeRawBufferPointer, on stream: Int32) {
        received[stream, default: []] += bytes
        if consumes { session.consume(bytes.count, on: stream) }
    }

    func receivedEnd(of stream: Int32) { events.append("end \(stream)") }
    func streamClosed(_ stream: Int32, _ code: HTTP2ErrorCode) { events.append("closed \(stream) \(code)") }

    func offerContent(of stream: Int32, limit: Int) -> HTTP2ContentOffer {
        guard let rest = content[stream] else { return .broken }
        if rest.isEmpty, unfinished.contains(stream) { return .later }
        offered = min(limit, rest.count)
        let isLast = offered == rest.count && !unfinished.contains(stream)
        if isLast, let trailers = trailers[stream] {
            session.submitTrailers(trailers, on: stream)
            return .bytes(offered, isLast: true, hasTrailers: true)
        }
        return .bytes(offered, isLast: isLast)
    }

    func takeContent(of stream: Int32, into place: UnsafeMutableRawBufferPointer) {
        content[stream]?[..<place.count].withUnsafeBytes { place.copyMemory(from: $0) }
        content[stream]?.removeFirst(place.count)
    }

    func receivedSettings() { events.append("settings") }
    func receivedGoAway(last: Int32, _ code: HTTP2ErrorCode) { events.append("goaway \(last) \(code)") }
    func receivedPingAcknowledgement() { events.append("pong") }
    func streamReset(_ stream: Int32, _ code: HTTP2ErrorCode, isByPeer: Bool) {
        events.append("\(isByPeer ? "was reset" : "reset") \(stream) \(code)")
    }
    func sentGoAway(_ code: HTTP2ErrorCode) { events.append("ended \(code)") }

    func takeEvents() -> [String] {
        defer { events = [] }
        return events
    }

    /// All bytes that the session has to send.
    func output(room: Int = HTTP2Session.frameBytes) -> [UInt8] {
        var all: [UInt8] = []
        while true {
            let piece = [UInt8](unsafeUninitializedCapacity: room) { place, count in
                count = session.write(into: UnsafeMutableRawBufferPointer(place), notifying: self)
            }
            guard !piece.isEmpty else { return all }
            all += piece
        }
    }

    @discardableResult
    func receive(_ bytes: [UInt8]) -> HTTP2Session.Receiving { bytes.withUnsafeBytes { session.receive($0, notifying: self) } }
}

struct SessionPair {
    let client: Side
    let server: Side

    init(_ settings: HTTP2SessionSettings = HTTP2SessionSettings()) throws {
        client = try Side(.client)
        server = try Side(.server, settings)
        exchange()
        _ = (client.takeEvents(), server.takeEvents())
    }

    /// Exchanges bytes until neither side has any to send.
    func exchange(room: Int = HTTP2Session.frameBytes) {
        while true {
            let (asked, told) = (client.output(room: room), server.output(room: room))
            guard !asked.isEmpty || !told.isEmpty else { return }
            server.receive(asked)
            client.receive(told)
        }
    }

    static func list(_ lines: [(String, String)]) -> HTTP2FieldList {
        var list = HTTP2FieldList()
        for (name, value) in lines { list.append(name, value) }
        return list
    }

    static func request(_ path: String, _ more: [(String, String)] = []) -> HTTP2FieldList {
        list([(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", path)] + more)
    }
}

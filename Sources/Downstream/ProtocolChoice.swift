// Detects HTTP/2 on a cleartext connection by the client's first bytes (RFC 9113 §3.4). Common HTTP/1.1 methods begin differently from the
// HTTP/2 preface, so one or two bytes usually suffice.

import Figures
import HTTP2
import HTTPCore
import Reactor

final class ProtocolChoice: AcceptedConnection {
    let peer: PeerAddress
    let listener: Listener
    private let table: ClientConnections
    /// nil after the socket was closed or transferred.
    private var socket: AcceptedSocket?
    private(set) var descriptor: Int32
    /// Deadline for the first bytes, in milliseconds of the loop's clock.
    private var deadline: Int64

    init(_ socket: consuming AcceptedSocket, table: ClientConnections) {
        (peer, listener) = (socket.peer, socket.listener)
        descriptor = socket.transport.descriptor
        deadline = table.keepAliveDeadline
        self.table = table
        self.socket = consume socket
    }

    /// Starts with the bytes that an earlier phase received and did not use.
    func start() { decide() }

    func ready(_ events: ReadyEvents) {
        guard socket != nil else { return }
        let events = socket!.transport.meaning(of: events)
        if events.isBroken { return closeNow() }
        guard events.isReadable else { return }
        // Reads at most the preface. Further bytes belong to the next phase.
        let buffer = UnsafeMutableBufferPointer(
            rebasing: table.readBuffer[..<(HTTP2Preface.bytes.utf8CodeUnitCount - socket!.received.count)])
        switch socket!.transport.receive(into: buffer) {
        case .bytes(let count):
            if socket!.received.isEmpty { deadline = table.deadline(after: table.settings.headTimeout) }
            socket!.received.append(contentsOf: buffer[..<count])
            decide()
        case .nothing: break
        case .ended, .broken: closeNow()
        }
    }

    private func decide() {
        guard let received = socket?.received else { return }
        switch HTTP2Preface.compare(received) {
        case .mayBe: break
        case .isOther: hand(on: .http1)
        case .isWhole: hand(on: .http2)
        }
    }

    private func hand(on phase: ConnectionPhase) {
        guard var next = socket.take() else { return }
        next.chosen = phase
        next.phase = .choice
        table.enter(next)
    }

    func checkDeadline(_ now: Int64) {
        guard socket != nil, now >= deadline else { return }
        table.counters[.connectionsTimedOut] += 1
        closeNow()
    }

    var clientWait: ClientWait? {
        socket == nil ? nil : ClientWait(kind: socket!.received.isEmpty ? .request : .opening, deadline: deadline)
    }

    func drain() { deadline = min(deadline, table.drainDeadline) }

    func closeNow() {
        guard var closed = socket.take() else { return }
        table.remove(descriptor)
        closed.transport.close()
        descriptor = -1
    }
}

/// The beginning of a client's HTTP/2 connection (RFC 9113 §3.4).
enum HTTP2Preface {
    static let bytes: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    enum Comparison: Equatable { case mayBe, isWhole, isOther }

    static func compare(_ received: [UInt8]) -> Comparison {
        for (index, byte) in received.prefix(bytes.utf8CodeUnitCount).enumerated() where byte != bytes.utf8Start[index] { return .isOther }
        return received.count >= bytes.utf8CodeUnitCount ? .isWhole : .mayBe
    }
}

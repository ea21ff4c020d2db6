// The phase of a connection that performs the TLS handshake. It has a separate timeout, and takes turns with other handshakes
// (`ServerTLS`).

import Addresses
import Figures
import HTTPCore
import Reactor

final class TLSHandshake: AcceptedConnection {
    let peer: PeerAddress
    /// Key by which handshakes are counted per client; nil if they are not counted.
    let client: UInt128?
    private(set) var descriptor: Int32
    /// nil after the socket was transferred or closed.
    private var socket: AcceptedSocket?
    private let tls: ClientTLS
    private let server: ServerTLS
    private let certificates: ServerCertificates
    let listener: Listener
    private let table: ClientConnections
    private var deadline: Int64
    /// Index of the certificate that the client receives.
    private var chosen = 0
    /// Whether the handshake waits for its turn.
    private var isScheduled = false

    // Neighbors in the list of running handshakes (`ServerTLS`).
    var older: TLSHandshake?
    var newer: TLSHandshake?

    init(_ socket: consuming AcceptedSocket, _ tls: ClientTLS, _ server: ServerTLS, table: ClientConnections) {
        peer = socket.peer
        client = socket.peer.clientAddress.counted(besides: table.settings.trustedProxies)
        descriptor = socket.transport.descriptor
        listener = socket.listener
        self.socket = consume socket
        (self.tls, self.server, self.table) = (tls, server, table)
        certificates = server.certificates
        deadline = table.deadline(after: server.certificates.settings.handshakeTimeout)
    }

    func start() {
        table.loop.modify(descriptor, .readable)
        server.begin(self)
    }

    private var isUnderWay: Bool { socket != nil }

    // MARK: Events

    func ready(_ events: ReadyEvents) {
        if events.isBroken { return fail(.ended) }
        guard !isScheduled else { return }
        isScheduled = true
        server.schedule(self)
        // It needs no events before its turn.
        if isScheduled { table.loop.modify(descriptor, []) }
    }

    /// Continues the handshake in its turn.
    func resume() {
        isScheduled = false
        while isUnderWay {
            switch tls.step() {
            case .agreed: return finish()
            case .wantsRead: return table.loop.modify(descriptor, .readable)
            case .wantsWrite: return table.loop.modify(descriptor, .writable)
            case .wantsChoice(let name):
                guard let index = server.choose(for: tls, name: name, listener.settings) else { return fail(.malformed) }
                chosen = index
            case .failed(.clear): return refuseClear()
            case .failed(let failure): return fail(failure)
            }
        }
    }

    var clientWait: ClientWait? { socket == nil ? nil : ClientWait(kind: .opening, deadline: deadline) }

    func closeForOthers() { fail(.crowded) }

    func checkDeadline(_ now: Int64) {
        guard isUnderWay, now >= deadline else { return }
        table.counters[.connectionsTimedOut] += 1
        fail(.timeout)
    }

    func drain() { deadline = min(deadline, table.drainDeadline) }
    func closeNow() { fail(.ended) }

    // MARK: Ends

    private func finish() {
        guard var socket = socket.take() else { return }
        server.end(self, nil, isResumed: tls.isResumed)
        socket.security = ConnectionSecurity(tls, index: chosen, of: certificates, on: listener.settings)
        if tls.speaksHTTP2 { socket.chosen = .http2 }
        socket.transport.secure(by: tls)
        socket.phase = .handshake
        table.enter(socket)
    }

    /// Sends an error response in cleartext to a client that speaks HTTP without TLS.
    private func refuseClear() {
        guard var socket = socket.take() else { return }
        server.end(self, .clear)
        tls.spoil()
        tls.close()
        socket.phase = .handshake
        socket.refusal = RequestRejection(.clearOnTLS, 400, "Cleartext HTTP was sent to an HTTPS port: use an https URL.")
        table.enter(socket)
    }

    func fail(_ failure: HandshakeFailure) {
        guard var socket = socket.take() else { return }
        server.end(self, failure)
        table.remove(descriptor)
        descriptor = -1
        // TLS has already sent an alert if one is appropriate.
        tls.spoil()
        tls.close()
        socket.transport.close()
    }
}

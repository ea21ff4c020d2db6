// Establishes one connection to the upstream: its name is resolved, libcurl connects, then TLS is negotiated if the upstream uses it, all
// within the connect timeout. The attempt continues if its request is cancelled. So disconnecting clients do not cause repeated attempts,
// and the outcome is recorded.

import HTTPCore
import Reactor

final class ConnectionAttempt: EventHandler {
    /// An established connection.
    struct Made {
        let stream: ByteStream
        let times: TransferTimes
        /// Whether a TLS session was resumed; nil without TLS.
        let isResumed: Bool?
        let spoken: SpokenProtocol
    }

    /// The requests that wait for the connection: none if they were cancelled, several if HTTP/2 is expected.
    private(set) var transfers: [Transfer]
    /// True if HTTP/2 must not be offered: for a protocol upgrade, a connection with connection-based credentials, or a request that may
    /// have broken HTTP/2.
    let isForHTTP1: Bool
    /// Whether HTTP/2 was offered to the upstream.
    private(set) var hasOfferedHTTP2 = false
    /// Addresses that the attempt does not use.
    let excluded: [NamedAddress]
    /// The remote address, from the TLS handshake on, if addresses of the upstream's name are tracked; nil otherwise.
    private(set) var peer: NamedAddress?
    /// Whether the connection is for a request that gets its own connection (`SeparatedRequests`).
    let isApart: Bool
    private let connections: OriginConnections
    private var phase = Phase.beginning
    private var timer: LoopTimer?
    private let began = SystemTime.monotonicMicroseconds
    /// End of name resolution and of connecting in microseconds from the start.
    private var (resolved, reached): (Int64, Int64) = (0, 0)
    /// Milliseconds of the loop's clock.
    let beganAt: Int64

    private enum Phase {
        /// The name is being resolved.
        case beginning
        case connecting(AddressRace)
        /// TLS handshake in progress. The socket must be closed after the handshake has ended.
        case securing(TLSConnection, CurlConnector.Connected)
        case ended
    }

    /// Starts an attempt. `connections` is notified of the result, never during this call.
    init(_ connections: OriginConnections, for transfer: Transfer?) {
        self.connections = connections
        transfers = transfer.map { [$0] } ?? []
        isForHTTP1 = transfer.map { $0.request.content == .tunnel || $0.needsHTTP1 || $0.needsOwnConnection } ?? false
        isApart = transfer?.isSeparated ?? false
        excluded = transfer?.failedAddresses ?? []
        beganAt = connections.loop.time.monotonicMilliseconds
        timer = connections.loop.schedule(after: connections.settings.connectTimeout) { [weak self] in self?.timeOut() }
        transfer?.note(.connectionBegan)
        let addresses = connections.addresses(without: excluded)
        if addresses.isEmpty, connections.name != nil { awaitName() } else { connect(to: addresses) }
    }

    /// Whether no other request may use the connection.
    var isForOne: Bool { isForHTTP1 || isApart }

    /// Whether the upstream's name has been resolved.
    var hasResolved: Bool {
        switch phase {
        case .beginning: false
        case .connecting(let race): race.hasResolved
        case .securing, .ended: true
        }
    }

    /// Whether the initial window of the connection suffices for further content.
    func hasWindow(for content: Int) -> Bool {
        content == 0
            || ContentWindow(unsent: transfers.reduce(0) { $0 + $1.request.contentBytes })
                .mayCarry(content, window: ContentWindow.initialBytes)
    }

    /// Adds a request that waits for the connection.
    func take(_ transfer: Transfer) {
        transfers.append(transfer)
        if transfer.joining == .no { transfer.joining = .joined }
        transfer.carrier = .attempt(self)
        transfer.note(.connectionBegan)
    }

    /// Removes and returns the first request that can use another connection; nil if there is none. The attempt continues.
    func handOver(_ fits: (Transfer) -> Bool) -> Transfer? { transfers.firstIndex(where: fits).map { transfers.remove(at: $0) } }

    /// Removes a cancelled request. The attempt continues.
    func abandon(_ transfer: Transfer) {
        guard let index = transfers.firstIndex(where: { $0 === transfer }) else { return }
        transfers.remove(at: index)
        connections.releaseShares(of: transfer)
        connections.serveWaiting()
    }

    /// Cancels the attempt without notifying `connections`.
    func cancel() {
        timer?.cancel()
        switch phase {
        case .beginning, .ended: break
        case .connecting(let race): race.cancel()
        case .securing(_, let connected):
            connections.loop.remove(connected.number)
        }
        phase = .ended
    }

    private func end(_ result: Result<Made, UpstreamError>) {
        if case .ended = phase { return }
        timer?.cancel()
        phase = .ended
        connections.ended(self, result)
    }

    private func timeOut() {
        let isInHandshake = if case .securing = phase { true } else { false }
        let error = hasResolved ? UpstreamError(.connectionTimeout, isInHandshake ? .handshakeTimeout : nil) : .dnsTimeout
        if case .connecting(let race) = phase { race.timeOut() }
        endUnsecured(error)
    }

    // MARK: Connecting

    private func connect(to addresses: [NamedAddress]) {
        resolved = SystemTime.monotonicMicroseconds - began
        // The race retains this attempt until it has called the closure.
        phase = .connecting(AddressRace(connections, to: addresses) { [self] result in connected(result) })
    }

    private func connected(_ result: Result<CurlConnector.Connected, UpstreamError>) {
        switch result {
        case .failure(let error): end(.failure(error))
        case .success(let connected):
            resolved += Int64(connected.resolved)
            reached = SystemTime.monotonicMicroseconds - began
            if connections.settings.isTLS { return secure(connected) }
            let spoken = isHTTP2Known ? SpokenProtocol.http2 : .http1
            let stream = ByteStream(connected.takeSocket(), nil)
            end(.success(Made(stream: stream, times: times(secured: 0), isResumed: nil, spoken: spoken)))
        }
    }

    private func awaitName() {
        // A look-up may take long: it must not retain the attempt and its request.
        let wait = LoopBound<() -> Void>(value: { [weak self] in
            guard let self, case .beginning = phase else { return }
            let addresses = connections.addresses(without: excluded)
            if addresses.isEmpty { return end(.failure(UpstreamError(.dnsError, connections.nameFailure))) }
            connect(to: addresses)
        })
        connections.whenNameEnded { [loop = connections.loop] in loop.execute { wait.value() } }
    }

    private var isHTTP2Known: Bool { connections.settings.knowsHTTP2 && !isForHTTP1 }

    private func times(secured: Int32) -> TransferTimes {
        var times = TransferTimes()
        (times.resolved, times.connected, times.secured) = (Int32(clamping: resolved), Int32(clamping: reached), secured)
        return times
    }

    // MARK: TLS

    private func secure(_ connected: CurlConnector.Connected) {
        guard let context = connections.tlsContext(isForHTTP1: isForHTTP1) else {
            // A file of the TLS settings is unusable.
            return end(.failure(UpstreamError(.tlsCertificateError, .tlsFiles)))
        }
        hasOfferedHTTP2 = connections.settings.http2 == .auto && connections.offersHTTP2 && !isForHTTP1
        guard let tls = TLSConnection(context, connected.number) else { return end(.failure(.proxyInternalError)) }
        phase = .securing(tls, connected)
        peer = connections.name == nil ? nil : NamedAddress(peerOf: connected.number)
        connections.loop.add(connected.number, .writable, self)
        resumeHandshake()
    }

    func ready(_ events: ReadyEvents) { resumeHandshake() }

    private func resumeHandshake() {
        guard case .securing(let tls, let connected) = phase else { return }
        switch tls.handshake() {
        case .wantsRead: connections.loop.modify(connected.number, .readable)
        case .wantsWrite: connections.loop.modify(connected.number, .writable)
        // RFC 9113 §3.2: over TLS, HTTP/2 must be negotiated.
        case .agreed where isHTTP2Known && !tls.isHTTP2:
            endUnsecured(UpstreamError(.tlsProtocolError, .noHTTP2))
        case .agreed:
            if let peer { connections.addressOrder.noteSuccess(of: peer) }
            connections.loop.remove(connected.number)
            let times = times(secured: Int32(clamping: SystemTime.monotonicMicroseconds - began))
            let spoken = isHTTP2Known || tls.isHTTP2 ? SpokenProtocol.http2 : .http1
            let stream = ByteStream(connected.takeSocket(), tls)
            end(.success(Made(stream: stream, times: times, isResumed: tls.isResumed, spoken: spoken)))
        case .failed(let error):
            connections.client.refusedCertificate = tls.refusedCertificate
            endUnsecured(error)
        }
    }

    /// Ends the attempt after a failed handshake or a timeout. Other attempts then try the address last.
    private func endUnsecured(_ error: UpstreamError) {
        if let peer { connections.addressOrder.noteFailure(of: peer, at: connections.loop.time.monotonicMilliseconds) }
        cancel()
        connections.ended(self, .failure(error))
    }
}

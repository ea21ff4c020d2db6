// The writing side of a connection: a whole response in one call, or a head followed by pieces of content. Bytes that the kernel does not
// accept at once wait in the output queue, and the exchange must pause.

import HTTPCore
import Reactor

extension ClientConnection {
    /// Sends a complete response: `head` (status line and field lines), `lines` (more field lines), the empty line and the body. Responses
    /// to HEAD omit the body. A small response takes one `send` from one buffer; a larger one takes one `sendmsg` without a copy of the
    /// body.
    /// - Returns: the bytes sent, if the response was sent in one piece and may be repeated (`staysOpen`); otherwise nil.
    @discardableResult
    public func sendWhole(head: Span<UInt8>, lines: Span<UInt8>, body: WholeBody) -> SentBytes? {
        table.loop.assertOnLoop()
        // The closed descriptor's number may belong to another client by now.
        guard let progress = state.respondWhole() else { return nil }
        let body = progress.isHead ? WholeBody.none : body
        let closing = progress.connectionLine
        let headCount = head.count + closing.utf8CodeUnitCount + lines.count + 2
        guard output.isEmpty, headCount <= ClientConnections.writeBytes else {
            queue(head, closing, lines)
            output.append(body, from: 0)
            _ = pushOutput()
            finishIfSent()
            return nil
        }
        // A response outside the handling of its request is sent with the other output of the batch of events.
        guard isHandling || headCount + body.count > Self.gatherBytes else {
            var bytes = table.takeSpareOutput()
            bytes.append(atMost: headCount + body.count) { response in
                response.put(head)
                response.put(closing)
                response.put(lines)
                response.put("\r\n")
                body.withBytes { response.put($0) }
            }
            output.append(piece: bytes)
            finishIfSent()
            table.pushAtEndOfBatch(self)
            return nil
        }
        let buffer = UnsafeMutableRawPointer(table.writeBuffer.baseAddress!)
        var count = 0
        func put(_ source: UnsafeRawPointer?, _ length: Int) {
            guard length > 0, let source else { return }
            (buffer + count).copyMemory(from: source, byteCount: length)
            count += length
        }
        head.withUnsafeBytes { put($0.baseAddress, $0.count) }
        put(closing.utf8Start, closing.utf8CodeUnitCount)
        lines.withUnsafeBytes { put($0.baseAddress, $0.count) }
        put(("\r\n" as StaticString).utf8Start, 2)
        guard headCount + body.count <= ClientConnections.writeBytes else {
            sendTwo(UnsafeRawBufferPointer(start: buffer, count: count), body)
            finishIfSent()
            return nil
        }
        body.withBytes { put($0.baseAddress, $0.count) }
        let response = UnsafeRawBufferPointer(start: buffer, count: count)
        send(response)
        finishIfSent()
        // After the request was handled, the end of the response may have started the next request, which overwrites the buffer.
        return isHandling && !progress.endsConnection ? SentBytes(response) : nil
    }

    /// Sends a response with content that is produced while it is sent. If the length is unknown, `takesChunks` must be true.
    public func sendProduced(head: Span<UInt8>, lines: Span<UInt8>, content producer: any ContentProducer) {
        guard let progress = state.respondWhole() else { return }
        queue(head, progress.connectionLine, lines, producer.length == nil ? "Transfer-Encoding: chunked\r\n" : "")
        output.append(producer)
        _ = pushOutput()
        finishIfSent()
    }

    /// Whether the client accepts chunked content. HTTP/1.0 has none.
    public var takesChunks: Bool { state.current?.version != .http10 }

    /// Whether the connection stays open after this response.
    public var staysOpen: Bool { state.current.map { !$0.endsConnection } ?? false }

    /// Sends a complete response with framing.
    public func sendComplete(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        guard state.respondWhole() != nil else { return }
        if let line {
            response.withBytes(endingWith: line, in: UnsafeMutableRawBufferPointer(table.writeBuffer), send)
        } else {
            send(response.bytes)
        }
        finishIfSent()
    }

    /// Responds to a request that the receiver recognized in `repeated`.
    public func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        beginRepeated()
        sendComplete(response, endingWith: line)
    }

    private func queue(
        _ head: Span<UInt8>, _ connectionLine: StaticString, _ lines: Span<UInt8>, _ framingLine: StaticString = ""
    ) {
        head.withUnsafeBytes { output.append($0) }
        for line in [connectionLine, framingLine] { line.withUTF8Buffer { output.append(UnsafeRawBufferPointer($0)) } }
        lines.withUnsafeBytes { output.append($0) }
        ("\r\n" as StaticString).withUTF8Buffer { output.append(UnsafeRawBufferPointer($0)) }
    }

    /// Sends a 1xx response to an HTTP/1.1 client (RFC 9110 §15.2).
    public func sendInformational(_ head: ResponseHead) {
        table.loop.assertOnLoop()
        guard let progress = state.current, progress.version == .http11, progress.response == .awaited else { return }
        var bytes: [UInt8] = []
        ResponseSerializer.append(head, to: &bytes)
        bytes.append("\r\n")
        bytes.withUnsafeBytes { send($0) }
    }

    public func spareOutput() -> [UInt8] { table.takeSpareOutput() }

    /// Number of bytes that `startResponse` and the first content append to a head, so that the caller can reserve them.
    public func spaceNeeded(lines: [UInt8], _ framing: ResponseFraming) -> Int {
        var capacity = lines.count + Self.framingBytes
        if case .length(let count) = framing, count < Self.gatherBytes { capacity += count }
        return capacity
    }

    /// Maximum bytes of the framing and connection fields.
    private static let framingBytes = 96

    /// Begins a response with content that follows in pieces. Adds the framing and connection fields.
    /// - Parameters:
    ///   - head: status line and field lines, with reserved capacity.
    ///   - lines: more field lines.
    ///   - readAhead: bytes of content that are buffered however slowly the client reads, if memory allows.
    public func startResponse(head: consuming [UInt8], lines: [UInt8] = [], framing: ResponseFraming, readAhead: Int = 0) {
        table.loop.assertOnLoop()
        guard let progress = state.beginResponse(framing, readAhead: readAhead, isFirstOutput: output.isEmpty) else { return }
        var bytes = head
        bytes.append(atMost: lines.count + Self.framingBytes) { end in
            switch framing {
            case .none: break
            case .length(let count): end.put(contentLength: count)
            case .chunked where progress.version == .http11: end.put("Transfer-Encoding: chunked\r\n")
            case .chunked: break
            case .tunnel: end.put("Connection: Upgrade\r\n")
            }
            if framing != .tunnel { end.put(progress.connectionLine) }
            end.put(lines)
            end.put("\r\n")
        }
        output.append(piece: bytes)
        table.pushAtEndOfBatch(self)
        // The client may have sent bytes of the new protocol already.
        if framing == .tunnel { table.loop.atEndOfBatch { [self] in resumeInput() } }
    }

    /// Queues a piece of content.
    /// - Returns: false if so many bytes wait that the caller should pause until `responseDrained`.
    public func write(_ bytes: Span<UInt8>) -> Bool {
        table.loop.assertOnLoop()
        guard let progress = state.current, !progress.isHead, bytes.count > 0 else { return true }
        bytes.withUnsafeBufferPointer { piece in
            let raw = UnsafeRawBufferPointer(piece)
            guard case .begun(isChunked: true, _) = progress.response else { return output.append(raw) }
            var size: [UInt8] = []
            size.append(chunkSize: raw.count)
            size.withUnsafeBytes { output.append($0) }
            output.append(raw)
            ("\r\n" as StaticString).withUTF8Buffer { output.append(UnsafeRawBufferPointer($0)) }
        }
        if output.count < Self.gatherBytes { table.pushAtEndOfBatch(self) } else if !pushOutput() { return true }
        return state.write(
            bytes.count, isOverfull: output.count > table.settings.outputHighWaterBytes,
            mayReadAhead: table.budget.mayReadAhead(holding: output.count, for: peer))
    }

    public func endResponse() {
        table.loop.assertOnLoop()
        let (isUnderWay, isChunked) = state.endResponse()
        guard isUnderWay else { return }
        if isChunked { ("0\r\n\r\n" as StaticString).withUTF8Buffer { output.append(UnsafeRawBufferPointer($0)) } }
        guard !output.isEmpty, output.count < Self.gatherBytes else {
            if pushOutput() { finishIfSent() }
            return
        }
        exchange = nil
        table.pushAtEndOfBatch(self)
        if state.current?.takesContent == true { updateInterest() }
    }

    /// Maximum size of output that is sent at the end of the batch of events. A head, a little content and the end are then sent in one
    /// call, and a sleeping peer is woken once for all responses of the batch.
    private static let gatherBytes = 16 * 1024

    func pushNow() {
        guard state.current != nil, !output.isEmpty, pushOutput() else { return }
        if output.isEmpty, state.hasResponded { finishIfSent() }
    }

    /// Withdraws a response that `startResponse` has begun, so that another one can be sent.
    /// - Returns: false if a part of it may have been sent.
    public func takeBackResponse() -> Bool {
        guard state.takeBackResponse() else { return false }
        output = OutputQueue()
        return true
    }

    /// Ends a broken response with a reset, because a client could interpret a normal close as the end of the content.
    public func abortResponse() {
        table.loop.assertOnLoop()
        guard !state.isClosed else { return }
        transport.resetAtClose()
        closeNow()
    }

    /// Reports the memory of waiting output to the budget.
    /// - Returns: false if the memory limit is exceeded.
    func isOutputHeld() -> Bool {
        let change = output.heldBytes - heldBytes
        heldBytes = output.heldBytes
        return change == 0 || table.budget.hold(change, of: peer)
    }

    /// Continues sending when the socket is writable.
    func flush() {
        guard pushOutput() else { return }
        if output.isEmpty, state.hasResponded { return finishIfSent() }
        let isDrained = output.count <= table.settings.outputHighWaterBytes / 4 && state.resumeResponse()
        if output.isEmpty { updateInterest() }
        if isDrained { exchange?.responseDrained() }
    }

    /// Releases the exchange of a response that has ended, and ends its request if all of the response has been sent.
    private func finishIfSent() {
        exchange = nil
        if output.isEmpty { return perform(state.responseSent(hasInput: !input.isEmpty)) }
        // The rest of the request's content is read from now on.
        if state.current?.takesContent == true { updateInterest() }
    }

    private func send(_ bytes: UnsafeRawBufferPointer) {
        guard !state.isClosed else { return }
        guard output.isEmpty else {
            output.append(bytes)
            _ = pushOutput()
            return
        }
        guard let count = transport.send(bytes) else { return vanished() }
        if count == bytes.count { return }
        output.append(UnsafeRawBufferPointer(rebasing: bytes[count...]))
        blocked()
    }

    private func sendTwo(_ head: UnsafeRawBufferPointer, _ body: WholeBody) {
        guard !state.isClosed else { return }
        guard !transport.isSecured else { return sendRecords(head, body) }
        guard let sent = body.withBytes({ transport.send(head, $0) }) else { return vanished() }
        if sent < head.count { output.append(UnsafeRawBufferPointer(rebasing: head[sent...])) }
        output.append(body, from: max(0, sent - head.count))
        if !output.isEmpty { blocked() }
    }

    /// Sends head and body through TLS: the head's record is filled up with the beginning of the body.
    private func sendRecords(_ head: UnsafeRawBufferPointer, _ body: WholeBody) {
        let count = min(body.count, ClientConnections.writeBytes - head.count)
        let buffer = UnsafeMutableRawPointer(table.writeBuffer.baseAddress!)
        body.withBytes { (buffer + head.count).copyMemory(from: $0.baseAddress!, byteCount: count) }
        send(UnsafeRawBufferPointer(start: buffer, count: head.count + count))
        guard !state.isClosed else { return }
        output.append(body, from: count)
        _ = pushOutput()
    }

    /// Sends waiting output. Returns false if the connection broke.
    private func pushOutput() -> Bool {
        guard !isOutputAwaited else { return true }
        let before = output.sentBytes
        state.offerOutput()
        switch output.send(to: transport, table.contentMemory) {
        case .sent: break
        case .broken:
            vanished()
            return false
        case .onDisk(let bytes, let owner): load(bytes, of: owner)
        case .unmade(let producer): make(producer)
        }
        guard !output.isEmpty else {
            if heldBytes > 0 { _ = isOutputHeld() }
            writeDeadline = 0
            if let spent = output.takeSpent() { table.keepSpareOutput(spent) }
            return true
        }
        if output.sentBytes > before { writeDeadline = 0 }
        blocked()
        return !state.isClosed
    }

    private func blocked() {
        guard isOutputHeld() else {
            transport.resetAtClose()
            return vanished()
        }
        guard writeDeadline == 0 else { return }
        writeDeadline = table.writeDeadline
        updateInterest()
    }

    /// Handles a connection that broke while writing. The exchange is notified at the end of the batch of events, because it may be the
    /// current caller.
    fileprivate func vanished() {
        let exchange = self.exchange
        closeNow()
        guard let exchange else { return }
        table.loop.atEndOfBatch { exchange.clientLeft() }
    }
}

extension ClientConnections {
    func pushAtEndOfBatch(_ connection: any PushingConnection) {
        guard !connection.isPushQueued else { return }
        connection.isPushQueued = true
        pushing.append(connection)
        guard pushing.count == 1 else { return }
        loop.atEndOfBatch { [self] in
            // Output that is queued meanwhile waits for the next batch. Both arrays keep their memory.
            swap(&pushing, &pushed)
            for connection in pushed {
                connection.isPushQueued = false
                connection.pushNow()
            }
            pushed.removeAll(keepingCapacity: true)
        }
    }
}

extension ClientConnection: AwaitingOutput {
    var isClosed: Bool { state.isClosed }

    func outputCame() {
        flush()
        updateInterest()
    }

    func outputBroke() {
        transport.resetAtClose()
        vanished()
    }
}

extension RequestProgress {
    /// The Connection field line of the response, if it needs one.
    fileprivate var connectionLine: StaticString {
        if endsConnection { return "Connection: close\r\n" }
        return version == .http10 ? "Connection: keep-alive\r\n" : ""
    }
}

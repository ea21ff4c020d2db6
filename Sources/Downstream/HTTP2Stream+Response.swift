// The response side of a stream. The session takes waiting content frame by frame, as the client's flow-control windows allow.

import HTTP2
import HTTPCore
import Reactor

extension HTTP2Stream {
    @discardableResult
    func sendWhole(head: Span<UInt8>, lines: Span<UInt8>, body: WholeBody) -> SentBytes? {
        guard let progress = state.respondWhole() else { return nil }
        pendingHead = .made(HTTP2ResponseFields.make(head: head, lines: lines))
        if !progress.isHead {
            // A blocked connection may delay the body for long, so a small body is copied instead of retaining its owner.
            if connection.isBlocked { output.append(body, from: 0) } else { output.append(soon: body) }
        }
        responded()
        return joined(head, lines, progress.isHead ? .none : body)
    }

    /// Returns the response in one piece in HTTP/1.1 form; nil if it is too long.
    private func joined(_ head: Span<UInt8>, _ lines: Span<UInt8>, _ body: WholeBody) -> SentBytes? {
        let space = UnsafeMutableRawBufferPointer(table.writeBuffer)
        guard head.count + lines.count + 2 + body.count <= space.count else { return nil }
        var count = 0
        func put(_ bytes: UnsafeRawBufferPointer) {
            UnsafeMutableRawBufferPointer(rebasing: space[count...]).copyMemory(from: bytes)
            count += bytes.count
        }
        head.withUnsafeBytes(put)
        lines.withUnsafeBytes(put)
        ("\r\n" as StaticString).withUTF8Buffer { put(UnsafeRawBufferPointer($0)) }
        body.withBytes(put)
        return SentBytes(UnsafeRawBufferPointer(rebasing: space[..<count]))
    }

    /// Always true: a single response does not end the connection.
    var staysOpen: Bool { true }

    func sendComplete(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        guard let progress = state.respondWhole() else { return }
        pendingHead = line.map { .made(response.fields(endingWith: $0)) } ?? .kept(response.fields)
        if !progress.isHead { output.append(soon: response.content) }
        responded()
    }

    func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        state.beginRepeated()
        sendComplete(response, endingWith: line)
    }

    /// Always true: the end of the stream marks the end of content of unknown length.
    var takesChunks: Bool { true }

    func sendProduced(head: Span<UInt8>, lines: Span<UInt8>, content producer: any ContentProducer) {
        guard let progress = state.respondWhole() else { return }
        pendingHead = .made(HTTP2ResponseFields.make(head: head, lines: lines))
        if !progress.isHead { output.append(framed: producer) }
        responded()
    }

    func sendInformational(_ head: ResponseHead) {
        guard let progress = state.current, progress.response == .awaited else { return }
        connection.submitInformational(HTTP2ResponseFields.make(head), on: number)
    }

    func spaceNeeded(lines: [UInt8], _ framing: ResponseFraming) -> Int { 0 }

    func startResponse(head: consuming [UInt8], lines: [UInt8], framing: ResponseFraming, readAhead: Int) {
        guard state.beginResponse(framing, readAhead: readAhead, isFirstOutput: true) != nil else { return }
        let length: Int? = if case .length(let count) = framing { count } else { nil }
        pendingHead = .made(HTTP2ResponseFields.make(head: head.span, lines: lines.span, length: length))
        pushLater()
    }

    func write(_ bytes: Span<UInt8>) -> Bool {
        guard let progress = state.current, !progress.isHead, bytes.count > 0 else { return true }
        bytes.withUnsafeBufferPointer { output.append(UnsafeRawBufferPointer($0)) }
        noteMemory()
        pushLater()
        return state.write(
            bytes.count, isOverfull: output.count > table.settings.outputHighWaterBytes,
            mayReadAhead: table.budget.mayReadAhead(holding: connection.heldBytes, for: peer))
    }

    func endResponse() {
        if state.endResponse().isUnderWay { responded() }
    }

    func takeBackResponse() -> Bool {
        guard pendingHead != nil, state.takeBackResponse() else { return false }
        pendingHead = nil
        output = OutputQueue()
        noteMemory()
        return true
    }

    func abortResponse() {
        guard !state.isClosed else { return }
        connection.reset(self, .internalError)
    }

    /// Called when the response is complete, so that sending it no longer needs its exchange.
    private func responded() {
        exchange = nil
        if !hasInputEnded { forgetContent() }
        noteMemory()
        pushLater()
    }

    func pushLater() {
        guard !isPushQueued else { return }
        isPushQueued = true
        connection.pushLater(self)
    }

    // MARK: Sending

    /// Passes collected output to the session.
    func push() {
        isPushQueued = false
        guard !state.isClosed else { return }
        if let head = pendingHead.take() {
            state.offerOutput()
            connection.submitResponse(head, hasContent: !(state.hasResponded && output.isEmpty), on: number)
        } else if isContentAwaited, !isOutputAwaited {
            isContentAwaited = false
            connection.resumeContent(of: number)
        }
        if !output.isEmpty, writeDeadline == 0 { startWriteClock() }
    }

    private func startWriteClock() { writeDeadline = table.writeDeadline }

    func offerContent(limit: Int) -> HTTP2ContentOffer {
        guard !isBroken else { return .broken }
        guard !isOutputAwaited else { return awaitContent() }
        switch output.offer(limit: limit, table.contentMemory) {
        case .bytes(let count, let isAll):
            let isLast = isAll && state.hasResponded
            if count == 0, !isLast {
                writeDeadline = 0
                return awaitContent()
            }
            return .bytes(count, isLast: isLast)
        case .onDisk(let bytes, let owner): load(bytes, of: owner)
        case .unmade(let producer): make(producer)
        }
        return awaitContent()
    }

    private func awaitContent() -> HTTP2ContentOffer {
        isContentAwaited = true
        return .later
    }

    func takeContent(into buffer: UnsafeMutableRawBufferPointer) {
        output.take(into: buffer)
        if output.isEmpty { writeDeadline = 0 } else { startWriteClock() }
        noteMemory()
        if output.count <= table.settings.outputHighWaterBytes / 4, state.resumeResponse() { connection.drained(self) }
    }

    /// Called when the session has written all of the response to the connection's output.
    func sentEnd() {
        writeDeadline = 0
        _ = state.responseSent(hasInput: true)
        if !hasInputEnded { beginDiscarding() }
    }
}

extension HTTP2Stream: AwaitingOutput {
    var isClosed: Bool { state.isClosed }

    func outputCame() {
        noteMemory()
        pushLater()
    }

    func outputBroke() {
        isBroken = true
        pushLater()
    }
}

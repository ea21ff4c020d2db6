// The response's side of a stream: what waits here is taken by the session, frame by frame, as fast as the client gives it windows.

import HTTP2
import HTTPCore
import Reactor

extension HTTP2Stream {
    @discardableResult
    func sendWhole(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, body: WholeBody) -> UnsafeRawBufferPointer? {
        guard let progress = state.respondWhole() else { return nil }
        pendingHead = .made(HTTP2ResponseFields.make(head: head, lines: lines))
        if !progress.isHead {
            // What the client does not take at once may wait for long: then a small body is better copied.
            if connection.isBlocked { output.append(body, from: 0) } else { output.append(soon: body) }
        }
        responded()
        return joined(head, lines, progress.isHead ? .none : body)
    }

    /// The response in one piece, as HTTP/1.1 has it; nil where it is long.
    private func joined(_ head: UnsafeRawBufferPointer, _ lines: UnsafeRawBufferPointer, _ body: WholeBody) -> UnsafeRawBufferPointer? {
        let space = UnsafeMutableRawBufferPointer(table.writeBuffer)
        guard head.count + lines.count + 2 + body.count <= space.count else { return nil }
        var count = 0
        func put(_ bytes: UnsafeRawBufferPointer) {
            UnsafeMutableRawBufferPointer(rebasing: space[count...]).copyMemory(from: bytes)
            count += bytes.count
        }
        put(head)
        put(lines)
        ("\r\n" as StaticString).withUTF8Buffer { put(UnsafeRawBufferPointer($0)) }
        body.withBytes(put)
        return UnsafeRawBufferPointer(rebasing: space[..<count])
    }

    /// A response that ends the connection is that of no request alone.
    var staysOpen: Bool { true }

    func sendComplete(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        guard let progress = state.respondWhole() else { return }
        pendingHead = line.map { .made(response.fields(endingWith: $0)) } ?? .kept(response.fields)
        if !progress.isHead { output.append(soon: response.content) }
        responded()
    }

    func sendAgain(_ response: CompleteResponse, endingWith line: [UInt8]?) {
        state.begin(RequestProgress())
        sendComplete(response, endingWith: line)
    }

    /// Content of unknown length ends with its stream.
    var takesChunks: Bool { true }

    func sendProduced(head: UnsafeRawBufferPointer, lines: UnsafeRawBufferPointer, content producer: any ContentProducer) {
        guard let progress = state.respondWhole() else { return }
        pendingHead = .made(HTTP2ResponseFields.make(head: head, lines: lines))
        if !progress.isHead { output.append(framed: producer) }
        responded()
    }

    func sendInformational(_ head: ResponseHead) {
        guard let progress = state.current, progress.response == .awaited else { return }
        connection.submitInformational(HTTP2ResponseFields.make(head), on: number)
    }

    func roomNeeded(lines: [UInt8], _ framing: ResponseFraming) -> Int { 0 }

    func startResponse(head: consuming [UInt8], lines: [UInt8], framing: ResponseFraming, readAhead: Int) {
        guard state.beginResponse(framing, readAhead: readAhead, isFirstOutput: true) != nil else { return }
        let length: Int? = if case .length(let count) = framing { count } else { nil }
        pendingHead = head.withUnsafeBytes { head in
            lines.withUnsafeBytes { .made(HTTP2ResponseFields.make(head: head, lines: $0, length: length)) }
        }
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

    /// The response is whole; it goes out by itself from here.
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

    // MARK: Going out

    /// What has been gathered is the session's from now on.
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
        case .onDisk(let bytes, let owner): bringIn(bytes, of: owner)
        case .unmade(let producer): make(producer)
        }
        return awaitContent()
    }

    private func awaitContent() -> HTTP2ContentOffer {
        isContentAwaited = true
        return .later
    }

    func takeContent(into place: UnsafeMutableRawBufferPointer) {
        output.take(into: place)
        if output.isEmpty { writeDeadline = 0 } else { startWriteClock() }
        noteMemory()
        if output.count <= table.settings.outputHighWaterBytes / 4, state.resumeResponse() { connection.drained(self) }
    }

    /// All of the response has been written, into the connection's output at least.
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

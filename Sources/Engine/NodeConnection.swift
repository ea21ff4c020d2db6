// One connection to a server. Commands are sent together at the end of each batch of events; non-urgent commands wait slightly longer.
// Replies arrive in the order of the commands, so an expired command keeps its position. An unrequested reply ends the connection.

import Glibc
import Reactor

/// Receives the reply, or the failure, once, never during `send`.
protocol ReplyReceiver: AnyObject {
    func take(_ reply: EngineReply, at index: Int)
}

final class ReplyClosure: ReplyReceiver {
    private let then: (EngineReply) -> Void
    init(_ then: @escaping (EngineReply) -> Void) { self.then = then }
    func take(_ reply: EngineReply, at index: Int) { then(reply) }

    static var none: ReplyClosure { ReplyClosure { _ in } }
}

final class ReadSpace {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 32 * 1024, alignment: 16)
    deinit { bytes.deallocate() }
}

final class NodeConnection: EventHandler {
    struct Flight {
        let sent: Times
        let holdMilliseconds: Int64
        let receiver: any ReplyReceiver
        var indexes: Range<Int>
    }

    /// Times in milliseconds of the loop's clock, and in microseconds of the monotonic clock.
    struct Times {
        let milliseconds: Int64
        let microseconds: Int64
    }

    private enum State { case connecting, securing, open, closed }

    private enum Holding {
        case nothing
        /// Output waits for the end of the batch of events.
        case briefly
        /// Output waits for an urgent command or a timer.
        case forOthers
    }

    private let loop: EventLoop
    private let stream: NodeStream
    private let limits: EngineLimits
    private let reader: ReplyReader
    private let space: ReadSpace
    private let counted: EngineCounters
    private var owner: EngineNode?
    private var state = State.connecting
    private var flights = FlightLine()
    private var output: [UInt8] = []
    private var sentBytes = 0
    private var heldBytes = 0
    private var holding = Holding.nothing
    private var isHoldingTimed = false
    private var isReadQueued = false
    private var readWaitsForWrite = false
    private var writeWaitsForRead = false
    /// Number of the connection in this client; 0 before it is established.
    private(set) var number: UInt64 = 0
    /// When the connection was established, and when it last received bytes, in milliseconds of the loop's clock.
    private(set) var upSince: Int64 = 0
    private(set) var lastReceived: Int64 = 0

    /// Maximum number of replies handled per event, which take some hundred microseconds.
    private static let repliesPerTurn = 128
    private static let bytesPerTurn = 256 * 1024
    private static let sentBytesPerTurn = 1 << 20
    /// Delay in milliseconds, and size, of non-urgent output. Sent alone, such commands would cost ten times as much.
    private static let heldMilliseconds = 2
    private static let heldBytesLimit = 64 * 1024

    init(_ stream: NodeStream, loop: EventLoop, limits: EngineLimits, space: ReadSpace, counted: EngineCounters, owner: EngineNode) {
        (self.stream, self.loop, self.limits, self.space, self.counted, self.owner) = (stream, loop, limits, space, counted, owner)
        reader = ReplyReader(limits: limits)
        loop.add(stream.descriptor, .writable, self)
    }

    var isOpen: Bool { state == .open }
    var isSecuring: Bool { state == .securing }
    var flightCount: Int { flights.count }
    var oldest: Flight? { flights.first }

    func ready(_ events: ReadyEvents) {
        switch state {
        case .connecting: connect()
        case .securing: secure()
        case .open:
            if events.isWritable {
                if readWaitsForWrite {
                    readWaitsForWrite = false
                    read()
                }
                flush()
            }
            guard isOpen, events.isReadable || events.isBroken else { return }
            read()
            if isOpen, writeWaitsForRead { flush() }
        case .closed: break
        }
    }

    private func connect() {
        switch stream.isConnected() {
        case nil: end(.unreachable)
        case false?: break
        case true?:
            state = .securing
            secure()
        }
    }

    private func secure() {
        switch stream.secure() {
        case .wantsRead: loop.modify(stream.descriptor, .readable)
        case .wantsWrite: loop.modify(stream.descriptor, .writable)
        case .failed(let failure): end(failure)
        case .agreed:
            state = .open
            (upSince, lastReceived) = (now, now)
            counted.figures.connections += 1
            number = counted.figures.connections
            watch()
            owner?.connectionIsUp(self)
            // TLS may have buffered bytes of its last message.
            if isOpen, stream.mayHoldBytes { read() }
        }
    }

    private var now: Int64 { loop.time.monotonicMilliseconds }

    private func watch() {
        guard isOpen else { return }
        var events: ReadyEvents = readWaitsForWrite ? [] : .readable
        if (sentBytes < output.count && !writeWaitsForRead && holding == .nothing) || readWaitsForWrite { events.insert(.writable) }
        loop.modify(stream.descriptor, events)
    }

    func hasCapacity(commands: Int, bytes: Int) -> Bool {
        flights.count + commands <= limits.commandsUnderWay && output.count - sentBytes + bytes <= limits.unsentBytes
    }

    /// - Parameters:
    ///   - commands: encoded commands.
    ///   - indexes: identify the replies for the receiver.
    func send(
        _ commands: ArraySlice<UInt8>, _ holdMilliseconds: Int64 = 0, for receiver: any ReplyReceiver, _ indexes: Range<Int> = 0..<1,
        isUrgent: Bool = true, at times: Times
    ) {
        // The kernel has not accepted all output, and the loop waits until the socket is writable.
        let isBlocked = holding == .nothing && sentBytes < output.count
        output.append(contentsOf: commands)
        flights.append(Flight(sent: times, holdMilliseconds: holdMilliseconds, receiver: receiver, indexes: indexes))
        guard holding != .briefly else { return }
        if isUrgent || isBlocked || output.count - sentBytes > Self.heldBytesLimit {
            holding = .briefly
            loop.atEndOfBatch { [self] in resume() }
        } else {
            holding = .forOthers
            holdForOthers()
        }
    }

    private func holdForOthers() {
        guard !isHoldingTimed else { return }
        isHoldingTimed = true
        loop.schedule(after: .milliseconds(Self.heldMilliseconds)) { [weak self] in
            guard let self else { return }
            isHoldingTimed = false
            if holding == .forOthers { resume() }
        }
    }

    private func resume() {
        holding = .nothing
        flush()
    }

    private func flush() {
        guard isOpen, holding == .nothing else { return }
        writeWaitsForRead = false
        var left = Self.sentBytesPerTurn
        sending: while sentBytes < output.count, left > 0 {
            switch output.withUnsafeBytes({ stream.send(UnsafeRawBufferPointer(rebasing: $0[sentBytes...])) }) {
            case .bytes(let count):
                sentBytes += count
                left -= count
                counted.figures.bytesSent += UInt64(count)
            case .wantsWrite: break sending
            case .wantsRead:
                writeWaitsForRead = true
                break sending
            case .broken: return end(.connectionLost)
            }
        }
        forgetSent()
        watch()
    }

    private func forgetSent() {
        if sentBytes == output.count {
            output.removeAll(keepingCapacity: output.capacity <= 256 * 1024)
            sentBytes = 0
        } else if sentBytes > output.count / 2, sentBytes > 64 * 1024 {
            output.removeFirst(sentBytes)
            sentBytes = 0
        }
    }

    private func read() {
        guard isOpen, !isReadQueued else { return }
        let microseconds = SystemTime.monotonicMicroseconds
        var (replies, bytes) = (0, 0)
        var isDrained = false
        while replies < Self.repliesPerTurn, bytes < Self.bytesPerTurn {
            if let reply = reader.next() {
                replies += 1
                deliver(reply, at: microseconds)
                guard isOpen else { return }
                continue
            }
            guard !reader.isBroken else { return end(.protocolError) }
            guard noteHeld() else { return end(.protocolError) }
            guard !isDrained else { return }
            switch stream.receive(into: space.bytes) {
            case .bytes(let count):
                bytes += count
                lastReceived = now
                // The kernel has no more bytes; TLS may have buffered some.
                isDrained = count < space.bytes.count && !stream.mayHoldBytes
                reader.feed(UnsafeRawBufferPointer(rebasing: space.bytes[..<count]))
            case .nothing: return
            case .wantsWrite:
                readWaitsForWrite = true
                return watch()
            case .ended: return end(.connectionLost)
            }
        }
        isReadQueued = true
        loop.inNextRound { [self] in
            isReadQueued = false
            read()
        }
    }

    /// - Returns: false if all connections together buffer too much.
    private func noteHeld() -> Bool {
        counted.heldBytes += reader.bytesSinceReply - heldBytes
        heldBytes = reader.bytesSinceReply
        return heldBytes == 0 || counted.heldBytes <= limits.unfinishedBytes
    }

    private func deliver(_ reply: EngineReply, at microseconds: Int64) {
        guard let (receiver, index, sent) = flights.takeNext() else { return end(.protocolError) }
        counted.figures.roundTrips.note(microseconds - sent)
        receiver.take(reply, at: index)
    }

    func end(_ failure: EngineFailure) {
        guard state != .closed else { return }
        state = .closed
        loop.remove(stream.descriptor)
        stream.close()
        output = []
        counted.heldBytes -= heldBytes
        heldBytes = 0
        let left = flights
        flights = FlightLine()
        // The owner uses another connection from now on.
        owner?.connection(self, endedBy: failure, hadFlights: !left.isEmpty)
        owner = nil
        for flight in left.all { for index in flight.indexes { flight.receiver.take(.failed(failure), at: index) } }
    }
}

private struct FlightLine {
    private var flights: [NodeConnection.Flight?] = []
    private var head = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    var first: NodeConnection.Flight? { isEmpty ? nil : flights[head] }

    mutating func append(_ flight: NodeConnection.Flight) {
        flights.append(flight)
        count += flight.indexes.count
    }

    /// Receiver, index and sending time (microseconds) of the next reply; nil if none is expected.
    mutating func takeNext() -> (receiver: any ReplyReceiver, index: Int, sent: Int64)? {
        guard !isEmpty, let flight = flights[head] else { return nil }
        count -= 1
        if flight.indexes.count > 1 { flights[head]?.indexes.removeFirst() } else { removeFirst() }
        return (flight.receiver, flight.indexes.lowerBound, flight.sent.microseconds)
    }

    private mutating func removeFirst() {
        flights[head] = nil
        head += 1
        if head == flights.count {
            flights.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 512, head * 2 >= flights.count {
            flights.removeFirst(head)
            head = 0
        }
    }

    var all: [NodeConnection.Flight] { flights[head...].compactMap(\.self) }
}

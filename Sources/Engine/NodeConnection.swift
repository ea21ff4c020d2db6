// One connection with a server: commands go out in one piece at the end of each batch of events, replies come back in the same order. What nobody waits
// for goes out with what is next, or a moment later. Who asked and would not wait takes the reply's place all the same, so that none is taken for
// another's; a reply that nobody has asked for ends it.

import Glibc
import Reactor

protocol NodeConnectionOwner: AnyObject {
    /// Connected, and TLS is agreed.
    func connectionIsUp(_ connection: NodeConnection)
    /// What was under way fails when this has returned.
    func connection(_ connection: NodeConnection, endedBy failure: EngineFailure, hadFlights: Bool)
}

/// Who has asked, and is given the reply, or why there is none, once, and not from within the sending.
protocol ReplyReceiver: AnyObject {
    /// - Parameter place: as it was named when the command was sent.
    func take(_ reply: EngineReply, at place: Int)
}

/// Where that is all that is to be done.
final class ReplyClosure: ReplyReceiver {
    private let then: (EngineReply) -> Void
    init(_ then: @escaping (EngineReply) -> Void) { self.then = then }
    func take(_ reply: EngineReply, at place: Int) { then(reply) }

    /// Of no interest.
    static var none: ReplyClosure { ReplyClosure { _ in } }
}

/// What several connections of one loop read into, one after another.
final class ReadSpace {
    let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 32 * 1024, alignment: 16)
    deinit { bytes.deallocate() }
}

final class NodeConnection: EventHandler {
    /// Commands that were sent in one piece.
    struct Flight {
        let sent: Times
        let holdMilliseconds: Int64
        let receiver: any ReplyReceiver
        /// Of those that have no reply yet.
        var places: Range<Int>
    }

    /// Milliseconds of the loop's clock; microseconds of the machine's.
    struct Times {
        let milliseconds: Int64
        let microseconds: Int64
    }

    private enum State { case connecting, securing, open, closed }

    /// What of the output is not even offered to the kernel.
    private enum Holding {
        case nothing
        /// Until the end of the batch of events.
        case briefly
        /// Nobody waits for it: until more urgent commands come, or a timer.
        case forOthers
    }

    private let loop: EventLoop
    private let stream: NodeStream
    private let limits: EngineLimits
    private let reader: ReplyReader
    private let space: ReadSpace
    private let counted: Counted
    /// Until the end.
    private var owner: (any NodeConnectionOwner)?
    private var state = State.connecting
    private var flights = FlightLine()
    private var output: [UInt8] = []
    private var sentBytes = 0
    /// As it was counted last.
    private var heldBytes = 0
    private var holding = Holding.nothing
    private var isHoldingTimed = false
    private var isReadQueued = false
    private var readWaitsForWrite = false
    private var writeWaitsForRead = false
    /// Of all of the client's; 0 before it is up.
    private(set) var number: UInt64 = 0
    /// When it was up, and when anything came last: milliseconds of the loop's clock.
    private(set) var upSince: Int64 = 0
    private(set) var lastHeard: Int64 = 0

    /// What is done at one event, so that others on the loop have their turn: some hundred microseconds.
    private static let repliesPerTurn = 128
    private static let bytesPerTurn = 256 * 1024
    private static let sentBytesPerTurn = 1 << 20
    /// How long commands are held that nobody waits for, and how many bytes of them: a write of their own, the server's and the reading of its reply take
    /// ten times as long as they do beside others.
    private static let heldMilliseconds = 2
    private static let heldBytesLimit = 64 * 1024

    init(_ stream: NodeStream, loop: EventLoop, limits: EngineLimits, space: ReadSpace, counted: Counted, owner: any NodeConnectionOwner) {
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

    // MARK: Coming up

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
            (upSince, lastHeard) = (now, now)
            counted.figures.connections += 1
            number = counted.figures.connections
            watch()
            owner?.connectionIsUp(self)
            // TLS may hold what came with its last message.
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

    // MARK: Sending

    func hasRoom(commands: Int, bytes: Int) -> Bool {
        flights.count + commands <= limits.commandsUnderWay && output.count - sentBytes + bytes <= limits.unsentBytes
    }

    /// Where there is room.
    /// - Parameters:
    ///   - commands: as they go out.
    ///   - places: by which the receiver knows their replies.
    ///   - isUrgent: somebody waits for the replies.
    func send(
        _ commands: ArraySlice<UInt8>, _ holdMilliseconds: Int64 = 0, for receiver: any ReplyReceiver, _ places: Range<Int> = 0..<1,
        isUrgent: Bool = true, at times: Times
    ) {
        // The kernel has taken less than there was, and the loop waits for it to take more.
        let isBlocked = holding == .nothing && sentBytes < output.count
        output.append(contentsOf: commands)
        flights.append(Flight(sent: times, holdMilliseconds: holdMilliseconds, receiver: receiver, places: places))
        guard holding != .briefly else { return }
        if isUrgent || isBlocked || output.count - sentBytes > Self.heldBytesLimit {
            holding = .briefly
            loop.atEndOfBatch { [self] in goOn() }
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
            if holding == .forOthers { goOn() }
        }
    }

    private func goOn() {
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
            // A big one's memory is given back.
            output.removeAll(keepingCapacity: output.capacity <= 256 * 1024)
            sentBytes = 0
        } else if sentBytes > output.count / 2, sentBytes > 64 * 1024 {
            output.removeFirst(sentBytes)
            sentBytes = 0
        }
    }

    // MARK: Reading

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
                lastHeard = now
                // The kernel had no more. TLS may hold some that the kernel no longer tells of.
                isDrained = count < space.bytes.count && !stream.mayHoldBytes
                counted.figures.bytesReceived += UInt64(count)
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

    /// - Returns: false where too much is held on all connections together.
    private func noteHeld() -> Bool {
        counted.heldBytes += reader.heldBytes - heldBytes
        heldBytes = reader.heldBytes
        return heldBytes == 0 || counted.heldBytes <= limits.unfinishedBytes
    }

    private func deliver(_ reply: EngineReply, at microseconds: Int64) {
        guard let (receiver, place, sent) = flights.takeNext() else { return end(.protocolError) }
        counted.figures.roundTrips.note(microseconds - sent)
        receiver.take(reply, at: place)
    }

    // MARK: The end

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
        // Whoever hears of it asks elsewhere from here on.
        owner?.connection(self, endedBy: failure, hadFlights: !left.isEmpty)
        owner = nil
        for flight in left.all { for place in flight.places { flight.receiver.take(.failed(failure), at: place) } }
    }
}

/// First in, first out.
private struct FlightLine {
    private var flights: [NodeConnection.Flight?] = []
    private var head = 0
    /// Commands that have no reply yet.
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    var first: NodeConnection.Flight? { isEmpty ? nil : flights[head] }

    mutating func append(_ flight: NodeConnection.Flight) {
        flights.append(flight)
        count += flight.places.count
    }

    /// Whose the next reply is, at which place, and when its command was sent, in microseconds; nil where none is missing.
    mutating func takeNext() -> (receiver: any ReplyReceiver, place: Int, sent: Int64)? {
        guard !isEmpty, let flight = flights[head] else { return nil }
        count -= 1
        if flight.places.count > 1 { flights[head]?.places.removeFirst() } else { removeFirst() }
        return (flight.receiver, flight.places.lowerBound, flight.sent.microseconds)
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

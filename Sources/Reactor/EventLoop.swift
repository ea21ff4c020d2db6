// One shard's event loop: a serial queue that owns an epoll instance, an eventfd and its timers. Everything that lives on the loop is
// touched on its queue only. One dispatch source watches the epoll descriptor; its handler goes round `epoll_wait` with a bounded wait
// and gives the thread back to Dispatch once nothing happens: measured, this costs what a bare C loop costs, and a dispatch source per
// connection two and a half times as much.

import CSystem
import Descriptors
import Dispatch
import Glibc
import Locking

/// Is told of a descriptor's readiness, on the loop's queue.
public protocol EventHandler: AnyObject {
    func ready(_ events: ReadyEvents)
}

public struct ReadyEvents: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
    public static let readable = ReadyEvents(rawValue: EPOLLIN.rawValue)
    public static let writable = ReadyEvents(rawValue: EPOLLOUT.rawValue)
    public static let failed = ReadyEvents(rawValue: EPOLLERR.rawValue)
    /// The peer sends no more: its end may lie behind what is yet to be read.
    public static let ended = ReadyEvents(rawValue: EPOLLRDHUP.rawValue)

    /// The connection is of no more use.
    public var isBroken: Bool { rawValue & (EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0 }
    public var isReadable: Bool { rawValue & EPOLLIN.rawValue != 0 }
    public var isWritable: Bool { rawValue & EPOLLOUT.rawValue != 0 }
}

/// `@unchecked Sendable` because all but `pending` is touched on `queue` only, and `pending` is behind a mutex.
public final class EventLoop: @unchecked Sendable {
    public let time: any TimeSource
    public let queue: DispatchQueue

    private let epoll: Descriptor
    private let wakeDescriptor: Descriptor
    private var source: (any DispatchSourceRead)?
    /// By descriptor. A number is reused by the kernel as soon as it is closed, so `generation` tells late events from new ones.
    private var watched: [Watched] = []
    private var generation: UInt32 = 0
    private var timers = TimerHeap()
    private var batchEnd: [() -> Void] = []
    /// What of it is being done. Both arrays keep their memory: something is appended in almost every batch.
    private var batchEndUnderWay: [() -> Void] = []
    private var nextRound: [() -> Void] = []
    private var events = [epoll_event](repeating: epoll_event(), count: EventLoop.batchSize)
    private var stopped = false
    /// When the events being handled became known: read once for all of them.
    public private(set) var batchWallMilliseconds: Int64 = 0
    /// By the clock that never goes back.
    public private(set) var batchMilliseconds: Int64 = 0
    public private(set) var batchMicroseconds: Int64 = 0
    /// How long others waited for a batch to end.
    public private(set) var waits = LoopWaits()
    /// Work from other threads; they append and write `wakeDescriptor`, the loop takes all.
    private let pending = Mutex<Pending>(Pending())

    /// Events taken from the kernel at once: enough that a busy loop seldom calls it, few enough that timers stay on time.
    private static let batchSize = 256
    /// Pieces of work from other threads, and timers, that are done before descriptors are looked at again: where thousands come at once,
    /// such as the followers of one fetch, other clients are not kept waiting for the last of them.
    private static let turnLimit = 256
    /// How long the handler waits for more before it gives its thread back (milliseconds).
    private static let longestWait: Int32 = 100

    private struct Pending {
        var work: [@Sendable () -> Void] = []
        /// What comes now is let go.
        var hasEnded = false
    }

    private struct Watched {
        var handler: (any EventHandler)?
        var generation: UInt32 = 0
        var events: ReadyEvents = []
    }

    public init(label: String, time: any TimeSource = SystemTime.shared) {
        self.time = time
        queue = DispatchQueue(label: label)
        epoll = Descriptor(epoll_create1(Int32(EPOLL_CLOEXEC)))
        wakeDescriptor = Descriptor(eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC)))
        precondition(epoll.isOpen && wakeDescriptor.isOpen, "no descriptors left for an event loop")
        _ = csystem_epoll_control(epoll.number, EPOLL_CTL_ADD, wakeDescriptor.number, EPOLLIN.rawValue, UInt64(UInt32.max))
    }

    /// Where a call is out of place, so that it is found in tests and not by a user: ends the process, in debug builds, unless this is called on
    /// the loop, or before the loop has been started. Whoever owns state of the loop calls it wherever others enter.
    @inline(__always)
    public func assertOnLoop() {
        #if DEBUG
            if source != nil { dispatchPrecondition(condition: .onQueue(queue)) }
        #endif
    }

    /// Starts to run; events and work queued before are handled now.
    public func start() {
        let source = DispatchSource.makeReadSource(fileDescriptor: epoll.number, queue: queue)
        source.setEventHandler { [self] in run() }
        self.source = source
        source.activate()
        // References to what was once held weakly are counted slowly, and a pass counts those to its loop twenty times: so only in tests.
        if time.isMovedByHand { time.whenMoved { [weak self] in self?.wake() } }
        wake()
    }

    /// Ends the loop after the work already queued. Call from any thread; `then` runs on the loop's queue as the last thing. What is left, and what
    /// comes afterwards, is never done.
    public func stop(then: @escaping @Sendable () -> Void = {}) {
        execute { [self] in
            stopped = true
            source?.cancel()
            source = nil
            watched = []
            timers = TimerHeap()
            then()
        }
    }

    /// Lets go of all that waits: whoever is named in it may hold the loop.
    private func end() {
        watched = []
        timers = TimerHeap()
        nextRound = []
        let left = pending.withLock { pending in
            defer { pending = Pending(hasEnded: true) }
            return pending.work
        }
        withExtendedLifetime(left) {}
    }

    /// Runs `work` on the loop. From any thread.
    public func execute(_ work: @escaping @Sendable () -> Void) {
        let isFirst = pending.withLock { pending in
            guard !pending.hasEnded else { return false }
            pending.work.append(work)
            return pending.work.count == 1
        }
        if isFirst { wake() }
    }

    /// Runs `work` once, when the batch of events being handled has been handled. On the loop only.
    public func atEndOfBatch(_ work: @escaping () -> Void) {
        assertOnLoop()
        batchEnd.append(work)
    }

    /// Runs `work` once, after the kernel was asked for events again: for what goes on in pieces, so that others have their turn. On the loop
    /// only.
    public func inNextRound(_ work: @escaping () -> Void) {
        assertOnLoop()
        nextRound.append(work)
    }

    // MARK: Descriptors (on the loop only)

    /// Watches `descriptor` (level-triggered). The loop holds `handler` until `remove`.
    public func add(_ descriptor: Int32, _ events: ReadyEvents, _ handler: any EventHandler) {
        assertOnLoop()
        let index = Int(descriptor)
        if index >= watched.count { watched += [Watched](repeating: Watched(), count: index + 64 - watched.count) }
        generation &+= 1
        watched[index] = Watched(handler: handler, generation: generation, events: events)
        control(EPOLL_CTL_ADD, descriptor, events)
    }

    /// From now on another is told of a descriptor that is watched already.
    public func handOver(_ descriptor: Int32, to handler: any EventHandler, _ events: ReadyEvents = .readable) {
        assertOnLoop()
        watched[Int(descriptor)].handler = handler
        modify(descriptor, events)
    }

    public func modify(_ descriptor: Int32, _ events: ReadyEvents) {
        assertOnLoop()
        let index = Int(descriptor)
        guard index < watched.count, watched[index].handler != nil, watched[index].events != events else { return }
        watched[index].events = events
        control(EPOLL_CTL_MOD, descriptor, events)
    }

    /// Stops watching. Call before closing the descriptor; with `isClosed`, the kernel has forgotten it already.
    public func remove(_ descriptor: Int32, isClosed: Bool = false) {
        assertOnLoop()
        let index = Int(descriptor)
        guard index < watched.count, watched[index].handler != nil else { return }
        watched[index] = Watched()
        if !isClosed { control(EPOLL_CTL_DEL, descriptor, []) }
    }

    private func control(_ operation: Int32, _ descriptor: Int32, _ events: ReadyEvents) {
        let data = UInt64(watched[Int(descriptor)].generation) << 32 | UInt64(UInt32(descriptor))
        _ = csystem_epoll_control(epoll.number, operation, descriptor, events.rawValue, data)
    }

    // MARK: Timers (on the loop only)

    /// Calls `action` once, `delay` from now by the loop's `time`.
    @discardableResult
    public func schedule(after delay: Duration, _ action: @escaping () -> Void) -> LoopTimer {
        assertOnLoop()
        let timer = LoopTimer(deadline: time.monotonicMilliseconds + max(0, delay.wholeMilliseconds), action: action)
        timers.insert(timer)
        return timer
    }

    // MARK: Running

    private func wake() {
        var one: UInt64 = 1
        _ = write(wakeDescriptor.number, &one, 8)
    }

    /// The source's handler. Goes round until a whole wait brought nothing, then lets Dispatch have the thread.
    private func run() {
        while !stopped {
            let count = epoll_wait(epoll.number, &events, Int32(Self.batchSize), waitTime())
            noteTime()
            batchMicroseconds = SystemTime.monotonicMicroseconds
            if count > 0 {
                for index in 0..<Int(count) { handle(events[index]) }
            }
            takePending()
            takeNextRound()
            fireTimers()
            while !batchEnd.isEmpty {
                swap(&batchEnd, &batchEndUnderWay)
                for one in batchEndUnderWay { one() }
                batchEndUnderWay.removeAll(keepingCapacity: true)
            }
            let end = SystemTime.monotonicMicroseconds
            waits.note(end - batchMicroseconds, at: end)
            if count <= 0, timers.isEmpty, nextRound.isEmpty, !stopped { return }
        }
        end()
    }

    private func noteTime() {
        batchWallMilliseconds = time.wallMilliseconds
        batchMilliseconds = time.monotonicMilliseconds
    }

    /// A timer keeps the loop on its thread: Dispatch would not wake it for one.
    private func waitTime() -> Int32 {
        guard nextRound.isEmpty else { return 0 }
        guard let next = timers.next else { return Self.longestWait }
        return Int32(clamping: min(Int64(Self.longestWait), time.wait(until: next)))
    }

    private func handle(_ event: epoll_event) {
        let data = event.data.u64
        let descriptor = UInt32(truncatingIfNeeded: data)
        guard descriptor != .max else {
            var value: UInt64 = 0
            _ = read(wakeDescriptor.number, &value, 8)
            return
        }
        let entry = watched[Int(descriptor)]
        guard entry.generation == UInt32(data >> 32), let handler = entry.handler else { return }
        handler.ready(ReadyEvents(rawValue: event.events))
    }

    /// Timers that an action adds and that are due at once fire in the next round, so they cannot starve the descriptors. What is due is judged by
    /// the batch's time, by which their actions go too.
    private func fireTimers() {
        guard !timers.isEmpty else { return }
        var due: [LoopTimer] = []
        while due.count < Self.turnLimit, let next = timers.next, next <= batchMilliseconds { due.append(timers.removeFirst()) }
        for timer in due { timer.fire() }
    }

    private func takeNextRound() {
        guard !nextRound.isEmpty else { return }
        let work = nextRound
        nextRound = []
        for one in work { one() }
    }

    private func takePending() {
        let (work, isMore) = pending.withLock { pending -> (work: [@Sendable () -> Void], isMore: Bool) in
            guard pending.work.count > Self.turnLimit else {
                defer { pending.work = [] }
                return (pending.work, false)
            }
            defer { pending.work.removeFirst(Self.turnLimit) }
            return (Array(pending.work[..<Self.turnLimit]), true)
        }
        // `execute` wakes the loop where the list was empty only.
        if isMore { wake() }
        guard !work.isEmpty else { return }
        // It may have been asked for after this batch began, by somebody who knows of a later time.
        noteTime()
        for one in work { one() }
    }
}

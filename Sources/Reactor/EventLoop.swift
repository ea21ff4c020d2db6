// The event loop of one shard: a serial queue that owns an epoll instance, an eventfd and timers. State of the loop is used on its queue
// only. One dispatch source watches the epoll descriptor. Its handler repeats `epoll_wait` with a bounded wait, and returns the thread to
// Dispatch when nothing happens. This costs as much as a plain C loop; one dispatch source per connection would cost two and a half times
// as much.

import CSystem
import Dispatch
import Glibc

/// Receives the readiness of a descriptor, on the loop's queue.
public protocol EventHandler: AnyObject {
    func ready(_ events: ReadyEvents)
}

public struct ReadyEvents: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
    public static let readable = ReadyEvents(rawValue: EPOLLIN.rawValue)
    public static let writable = ReadyEvents(rawValue: EPOLLOUT.rawValue)
    public static let failed = ReadyEvents(rawValue: EPOLLERR.rawValue)
    /// The peer has closed its sending side. Unread bytes may precede that end.
    public static let ended = ReadyEvents(rawValue: EPOLLRDHUP.rawValue)

    /// Whether the connection has failed.
    public var isBroken: Bool { rawValue & (EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0 }
    public var isReadable: Bool { rawValue & EPOLLIN.rawValue != 0 }
    public var isWritable: Bool { rawValue & EPOLLOUT.rawValue != 0 }
}

/// `@unchecked Sendable` because all state except `pending` is used on `queue` only, and `pending` is behind a mutex.
public final class EventLoop: @unchecked Sendable {
    public let time: any TimeSource
    public let queue: DispatchQueue

    private let epoll: Descriptor
    private let wakeDescriptor: Descriptor
    private var source: (any DispatchSourceRead)?
    /// Handlers by descriptor. The kernel reuses the number of a closed descriptor, so `generation` distinguishes late events from new
    /// ones.
    private var watched: [Watched] = []
    private var generation: UInt32 = 0
    private var timers = TimerHeap()
    private var batchEnd: [() -> Void] = []
    /// The work of `batchEnd` that is being performed. Both arrays keep their memory, because almost every batch appends work.
    private var batchEndUnderWay: [() -> Void] = []
    private var nextRound: [() -> Void] = []
    private var events = [epoll_event](repeating: epoll_event(), count: EventLoop.batchSize)
    private var stopped = false
    /// Wall clock when the current events were received, in milliseconds since 1970. Read once for all of them.
    public private(set) var batchWallMilliseconds: Int64 = 0
    /// Monotonic clock when the current events were received, in milliseconds.
    public private(set) var batchMilliseconds: Int64 = 0
    public private(set) var batchMicroseconds: Int64 = 0
    /// Durations for which events waited until a batch ended.
    public private(set) var waits = LoopWaits()
    /// Work from other threads. They append it and write to `wakeDescriptor`; the loop removes all of it.
    private let pending = Mutex<Pending>(Pending())

    /// Maximum number of events taken from the kernel at once: large enough for few system calls under load, and small enough that timers
    /// are on time.
    private static let batchSize = 256
    /// Maximum number of pieces of work from other threads, and of timers, between two checks of the descriptors. Thousands of them, such
    /// as the followers of one fetch, do not delay other clients.
    private static let turnLimit = 256
    /// Maximum wait for events before the handler returns its thread, in milliseconds.
    private static let longestWait: Int32 = 100

    private struct Pending {
        var work: [@Sendable () -> Void] = []
        /// Whether the loop has ended. Further work is dropped.
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

    /// Descriptors that the process needs beside those of its loops: those of Dispatch and of signals, and a few connections.
    private static let spareDescriptors = 16

    /// Checks that the process may open the descriptors of new loops. Without them, a loop cannot be created.
    /// - Returns: an errno; 0 if it may.
    public static func descriptorError(loops: Int) -> Int32 {
        var descriptors: [Int32] = []
        defer { for descriptor in descriptors { _ = close(descriptor) } }
        for _ in 0..<2 * loops + spareDescriptors {
            let descriptor = eventfd(0, Int32(EFD_CLOEXEC))
            guard descriptor >= 0 else { return errno }
            descriptors.append(descriptor)
        }
        return 0
    }

    /// Terminates debug builds if the caller is neither on the loop nor before its start. Owners of the loop's state call it at their
    /// entry points, so that tests detect such calls.
    @inline(__always)
    public func assertOnLoop() {
        #if DEBUG
            if source != nil { dispatchPrecondition(condition: .onQueue(queue)) }
        #endif
    }

    /// Starts the loop. Events and work that were queued before are handled now.
    public func start() {
        let source = DispatchSource.makeReadSource(fileDescriptor: epoll.number, queue: queue)
        source.setEventHandler { [self] in run() }
        self.source = source
        source.activate()
        // Only tests need this. A weak reference anywhere would slow down all reference counting of the loop, which each request uses
        // twenty times.
        if time.isSetByTests { time.whenMoved { [weak self] in self?.wake() } }
        wake()
    }

    /// Ends the loop after the work that is already queued. May be called from any thread. `then` runs last, on the loop's queue. Remaining
    /// and later work is never performed.
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

    /// Drops all waiting work, because its closures may retain the loop.
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

    /// Runs `work` on the loop. May be called from any thread.
    public func execute(_ work: @escaping @Sendable () -> Void) {
        let isFirst = pending.withLock { pending in
            guard !pending.hasEnded else { return false }
            pending.work.append(work)
            return pending.work.count == 1
        }
        if isFirst { wake() }
    }

    /// Runs `work` once, at the end of the present batch of events. Must be called on the loop.
    public func atEndOfBatch(_ work: @escaping () -> Void) {
        assertOnLoop()
        batchEnd.append(work)
    }

    /// Runs `work` once, after the next check for events. For work in several parts, so that other events are handled in between. Must be
    /// called on the loop.
    public func inNextRound(_ work: @escaping () -> Void) {
        assertOnLoop()
        nextRound.append(work)
    }

    // MARK: Descriptors (on the loop only)

    /// Watches `descriptor` (level-triggered). The loop retains `handler` until `remove`.
    public func add(_ descriptor: Int32, _ events: ReadyEvents, _ handler: any EventHandler) {
        assertOnLoop()
        let index = Int(descriptor)
        if index >= watched.count { watched += [Watched](repeating: Watched(), count: index + 64 - watched.count) }
        generation &+= 1
        watched[index] = Watched(handler: handler, generation: generation, events: events)
        control(EPOLL_CTL_ADD, descriptor, events)
    }

    /// Replaces the handler of a watched descriptor, and watches for input.
    public func handOver(_ descriptor: Int32, to handler: any EventHandler) {
        assertOnLoop()
        watched[Int(descriptor)].handler = handler
        modify(descriptor, .readable)
    }

    public func modify(_ descriptor: Int32, _ events: ReadyEvents) {
        assertOnLoop()
        let index = Int(descriptor)
        guard index < watched.count, watched[index].handler != nil, watched[index].events != events else { return }
        watched[index].events = events
        control(EPOLL_CTL_MOD, descriptor, events)
    }

    /// Stops watching. Must be called before the descriptor is closed.
    public func remove(_ descriptor: Int32) {
        assertOnLoop()
        let index = Int(descriptor)
        guard index < watched.count, watched[index].handler != nil else { return }
        watched[index] = Watched()
        control(EPOLL_CTL_DEL, descriptor, [])
    }

    private func control(_ operation: Int32, _ descriptor: Int32, _ events: ReadyEvents) {
        let data = UInt64(watched[Int(descriptor)].generation) << 32 | UInt64(UInt32(descriptor))
        _ = csystem_epoll_control(epoll.number, operation, descriptor, events.rawValue, data)
    }

    // MARK: Timers (on the loop only)

    /// Calls `action` once, after `delay` by the loop's `time`.
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

    /// The source's handler. Repeats until a whole wait brings no events, then returns the thread to Dispatch.
    private func run() {
        while !stopped {
            var count = epoll_wait(epoll.number, &events, Int32(Self.batchSize), waitTime())
            // After the process was stopped, events that arrived meanwhile precede timers that became due.
            if count < 0 { count = epoll_wait(epoll.number, &events, Int32(Self.batchSize), 0) }
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

    /// Maximum wait in milliseconds. A timer keeps the loop on its thread, because Dispatch would not wake it for a timer.
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

    /// Fires due timers by the batch's time, which their actions use too. Timers that an action adds fire in the next round at the
    /// earliest, so they cannot starve the descriptors.
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
        // `execute` wakes the loop only if the list was empty.
        if isMore { wake() }
        guard !work.isEmpty else { return }
        // The work may have been queued after the batch began, so the time is read again.
        noteTime()
        for one in work { one() }
    }
}

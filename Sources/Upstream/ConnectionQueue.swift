// The queue of requests that wait for a connection. It is first in, first out among requests whose shares are not full; background
// requests come last. It contains no connections, only their limit and the number in use. A step takes logarithmic time in the number of
// waiting requests, plus a visit of each share that blocks requests. There are at most twice as many such shares as connections.

/// A limited part of the connections. While it is full, its requests wait, and other requests overtake them. Equal names must have equal
/// limits. `ConnectionShares+Clients.swift` divides shares among clients.
public struct ConnectionShare: Hashable, Sendable {
    /// Identified by a number instead of text, because each request looks it up twice.
    public enum Name: Hashable, Sendable {
        /// Requests with content that is streamed.
        case streamedContent
        /// Requests for one path family.
        case family(UInt64)
        /// Requests for all paths that count as failing.
        case failing
        /// Requests with streaming responses.
        case streams
        /// Requests that may break HTTP/2 connections.
        case separatedRequests
        /// Requests of one client.
        case client(UInt64)
        /// Requests of one client for one path family, with content that is streamed, or with streaming responses.
        case clientInFamily(UInt64, client: UInt64)
        case clientStreamedContent(UInt64)
        case clientStreams(UInt64)

        public func hash(into hasher: inout Hasher) { hasher.combine(number) }

        /// Place in `ConnectionQueue.recent`.
        fileprivate var slot: Int { Int(truncatingIfNeeded: number) & 31 }

        /// One number for each name. Different names may have one number.
        fileprivate var number: UInt64 {
            switch self {
            case .family(let number): number
            case .client(let number), .clientStreamedContent(let number), .clientStreams(let number): number &+ 1
            case .clientInFamily(let family, let client): family &+ client
            case .streamedContent, .failing, .streams, .separatedRequests: 0
            }
        }

        /// Whether the share is for one client.
        var isOfClient: Bool {
            switch self {
            case .client, .clientInFamily, .clientStreamedContent, .clientStreams: true
            case .streamedContent, .family, .failing, .streams, .separatedRequests: false
            }
        }

        /// Whether each client has a part of the share.
        var isDivided: Bool {
            switch self {
            case .streamedContent, .family, .streams: true
            case .failing, .separatedRequests, .client, .clientInFamily, .clientStreamedContent, .clientStreams: false
            }
        }
    }

    public enum Limit: Hashable, Sendable {
        case connections(Int)
        /// No more connections than remain free. For healthy requests that may be slow, as with long polling. One such share then gets
        /// half of the connections, and each of several gets less, so that a further share always finds a free connection.
        case free
        /// At most twice as many connections as remain free, and never the last free one.
        case twiceFree
        /// The part of one client in a family with the limit `twiceFree`. Part and family together hold at most twice as many connections
        /// as remain free. A single client thus gets half of the connections, and a second client still finds a free one.
        case part
        /// Not the last eighth of the connections, plus one, if there are at least eight. They remain for other shares, each of which may
        /// always hold one of them.
        case exceptReserve

        var isOfFree: Bool { if case .connections = self { false } else { true } }
    }

    public let name: Name
    public let limit: Limit

    public init(_ name: Name, _ limit: Limit) {
        self.name = name
        self.limit = limit
    }
}

/// The shares that a request names. Usually three, which need no heap allocation.
public struct ConnectionShares: Sendable, RandomAccessCollection, ExpressibleByArrayLiteral {
    private var first: ConnectionShare?
    private var second: ConnectionShare?
    private var third: ConnectionShare?
    private var others: [ConnectionShare] = []

    public init(arrayLiteral shares: ConnectionShare...) { for share in shares { append(share) } }

    public init(_ first: ConnectionShare, _ second: ConnectionShare? = nil, _ third: ConnectionShare? = nil) {
        (self.first, self.second, self.third) = (first, second, third)
    }

    public var startIndex: Int { 0 }
    public var endIndex: Int { third != nil ? 3 + others.count : second != nil ? 2 : first != nil ? 1 : 0 }
    public subscript(index: Int) -> ConnectionShare {
        switch index {
        case 0: first!
        case 1: second!
        case 2: third!
        default: others[index - 3]
        }
    }

    public mutating func append(_ share: ConnectionShare) {
        switch endIndex {
        case 0: first = share
        case 1: second = share
        case 2: third = share
        default: others.append(share)
        }
    }

    public mutating func append(contentsOf shares: ConnectionShares) { for share in shares { append(share) } }
}

struct ConnectionQueue<Element> {
    /// An entry of the queue. When a request leaves the queue, its entry becomes empty.
    final class Waiter {
        fileprivate let number: Int
        fileprivate let shares: ConnectionShares
        /// Whether one of the request's shares was full when it entered the queue.
        fileprivate let isHeldBack: Bool
        fileprivate(set) var element: Element?

        fileprivate init(_ number: Int, _ element: Element, _ shares: ConnectionShares, isHeldBack: Bool) {
            self.number = number
            self.element = element
            self.shares = shares
            self.isHeldBack = isHeldBack
        }
    }

    private final class Share {
        /// Number of connections held by running requests that name this share.
        var held = 0
        /// Number of waiting requests that name this share.
        var waiting = 0
        /// Waiting requests that this share blocks. Each release lets one of them try again.
        var blocked = WaiterHeap<Element>()

        var isUnused: Bool { held == 0 && waiting == 0 }
    }

    private let connections: Int
    private let limit: Int
    private var numbers = 0
    /// Number of requests that have a connection, or a stream.
    private(set) var running = 0
    /// Entries that may be ready to be served.
    private var ready = WaiterHeap<Element>()
    /// All shares, including some unused ones, which are usually needed again soon.
    private var shares: [ConnectionShare.Name: Share] = [:]
    private var sweepAt = 64
    /// Shares that were looked up recently, at the lowest bits of their numbers. This avoids hashing for most requests.
    private var recent = [(name: ConnectionShare.Name, share: Share)?](repeating: nil, count: 32)
    /// Shares that block entries, with a limit that depends on the number of free connections. Each has at least one connection, so their
    /// number is limited.
    private var waitingForFree: Set<ConnectionShare> = []
    /// Number of waiting requests, and number of those that found a share full at their entry.
    private(set) var count = 0
    private var heldBack = 0

    /// Number of later requests that may overtake a background request: twice the number of connections. So a background request is served
    /// eventually. Its result can shorten the wait of other requests.
    private var postponement: Int { 2 * connections }
    /// Number of connections of the limit `exceptReserve`. The second one lets a share of the limit `twiceFree` grow.
    private var reserve: Int { connections < 8 ? 0 : 1 + (connections + 2) / 8 }

    /// - Parameters:
    ///   - connections: maximum number of connections.
    ///   - limit: maximum number of waiting requests. One share, and background requests, may use half of it. A share that is divided among
    ///     clients, and requests with a full share, may use three quarters, so that there is space for others.
    init(connections: Int, limit: Int) {
        self.connections = connections
        self.limit = limit
    }

    /// Whether no waiting request is ready to be served.
    var isReadyEmpty: Bool { ready.isEmpty }

    /// Shares of several clients that keep requests waiting, with a limit that depends on the number of free connections.
    var blockingShares: Set<ConnectionShare.Name> {
        Set(waitingForFree.lazy.map(\.name).filter { !$0.isOfClient && blockedCount(by: $0) > 0 })
    }

    /// Shares of clients over all paths that keep requests waiting.
    var blockingClients: [ConnectionShare.Name] {
        waitingForFree.map(\.name).filter { if case .client = $0 { blockedCount(by: $0) > 0 } else { false } }
    }

    /// Number of requests that wait because the share is full.
    func blockedCount(by name: ConnectionShare.Name) -> Int { shares[name]?.blocked.count ?? 0 }

    /// Number of connections that requests of the share hold.
    func held(by name: ConnectionShare.Name) -> Int { shares[name]?.held ?? 0 }

    /// Whether the queue has space for another request with these shares.
    func mayEnter(_ wanted: ConnectionShares, isBackground: Bool = false) -> Bool {
        guard count < (isBackground ? limit / 2 : limit) else { return false }
        guard !isHeldBack(wanted) || heldBack < max(1, limit * 3 / 4) else { return false }
        // The part of one client must not fill the queue of a share.
        let hasParts = wanted.contains { $0.name.isOfClient }
        return wanted.allSatisfy {
            shares[$0.name]?.waiting ?? 0 < max(1, hasParts && $0.name.isDivided ? limit * 3 / 4 : limit / 2)
        }
    }

    /// Adds a request.
    /// - Parameter isBackground: whether no client waits for the request. It then enters behind the others, and some later requests precede
    ///   it.
    mutating func enter(_ element: Element, _ wanted: ConnectionShares, isBackground: Bool = false) -> Waiter {
        let number = isBackground ? numbers + postponement : numbers
        let waiter = Waiter(number, element, wanted, isHeldBack: isHeldBack(wanted))
        numbers += 1
        count += 1
        if waiter.isHeldBack { heldBack += 1 }
        for share in wanted { known(share).waiting += 1 }
        ready.insert(waiter)
        return waiter
    }

    /// Removes a request that no longer waits.
    mutating func leave(_ waiter: Waiter) {
        guard waiter.element != nil else { return }
        remove(waiter)
        // This entry may have been unblocked instead of another one, which can be tried now.
        for share in waiter.shares { unblock(share) }
    }

    /// Removes and returns the first request that can be served. It holds its shares from then on.
    mutating func next() -> Element? {
        while let waiter = ready.popFirst() {
            guard let element = waiter.element else { continue }
            if let full = waiter.shares.first(where: { !hasCapacity($0) }) {
                block(waiter, full)
            } else {
                remove(waiter)
                running += 1
                for share in waiter.shares { known(share).held += 1 }
                return element
            }
        }
        return nil
    }

    /// Takes the shares for a request that need not wait.
    /// - Returns: false if one of the shares is full; none is held then.
    mutating func take(_ wanted: ConnectionShares) -> Bool {
        for index in wanted.indices where !hasCapacity(wanted[index]) { return false }
        running += 1
        for index in wanted.indices { known(wanted[index]).held += 1 }
        return true
    }

    /// Takes further shares for a running request.
    /// - Returns: false if one of the shares is full; none is held then.
    mutating func join(_ wanted: ConnectionShares) -> Bool {
        guard !isHeldBack(wanted) else { return false }
        for share in wanted { known(share).held += 1 }
        return true
    }

    /// Releases the shares of a request that has returned its connection.
    mutating func release(_ held: ConnectionShares) {
        running -= 1
        for index in held.indices { find(held[index].name)?.held -= 1 }
        for index in held.indices where !held[index].limit.isOfFree { unblock(held[index]) }
        // One more connection is free for all of them.
        for share in waitingForFree { unblock(share) }
    }

    private func isHeldBack(_ wanted: ConnectionShares) -> Bool { wanted.contains { !hasCapacity($0) } }

    func hasCapacity(_ share: ConnectionShare) -> Bool {
        switch share.limit {
        case .connections, .free: break
        // While less than half of the connections are used, such shares are never full, and need no look-up.
        case .twiceFree, .part, .exceptReserve: if 2 * running < connections { return true }
        }
        return shares[share.name].map { hasCapacity(share, $0) } ?? true
    }

    private func hasCapacity(_ share: ConnectionShare, _ known: Share) -> Bool {
        switch share.limit {
        case .connections(let count): known.held < max(1, count)
        // A share without a connection waits only for a free connection.
        case .free: known.held == 0 || known.held < connections - running
        case .twiceFree: known.held == 0 || max(2, known.held) < 2 * (connections - running)
        case .exceptReserve: known.held == 0 || connections - running > reserve
        case .part: known.held == 0 || known.held + heldByFamily(of: share.name) < 2 * (connections - running)
        }
    }

    private func heldByFamily(of name: ConnectionShare.Name) -> Int {
        if case .clientInFamily(let family, _) = name { held(by: .family(family)) } else { 0 }
    }

    private mutating func known(_ share: ConnectionShare) -> Share {
        if let known = find(share.name) { return known }
        if shares.count >= sweepAt {
            shares = shares.filter { !$0.value.isUnused }
            for place in recent.indices { recent[place] = nil }
            sweepAt = max(64, shares.count * 2)
        }
        let new = Share()
        shares[share.name] = new
        recent[share.name.slot] = (share.name, new)
        return new
    }

    private mutating func find(_ name: ConnectionShare.Name) -> Share? {
        if let known = recent[name.slot], known.name == name { return known.share }
        guard let known = shares[name] else { return nil }
        recent[name.slot] = (name, known)
        return known
    }

    private mutating func remove(_ waiter: Waiter) {
        waiter.element = nil
        count -= 1
        if waiter.isHeldBack { heldBack -= 1 }
        for share in waiter.shares { shares[share.name]?.waiting -= 1 }
    }

    private mutating func block(_ waiter: Waiter, _ full: ConnectionShare) {
        shares[full.name]?.blocked.insert(waiter)
        if full.limit.isOfFree { waitingForFree.insert(full) }
        for share in waiter.shares where share != full { unblock(share) }
    }

    private mutating func unblock(_ share: ConnectionShare) {
        guard let known = shares[share.name] else {
            waitingForFree.remove(share)
            return
        }
        guard hasCapacity(share, known) else { return }
        if let waiter = known.blocked.popFirst() { ready.insert(waiter) }
        if known.blocked.isEmpty { waitingForFree.remove(share) }
    }
}

/// A heap of entries by number, lowest first. Entries without a request are skipped, and removed before they are half of all.
private struct WaiterHeap<Element> {
    typealias Waiter = ConnectionQueue<Element>.Waiter

    private var heap: [Waiter] = []
    private var sweepAt = 16

    var isEmpty: Bool { heap.isEmpty }
    /// Number of entries that still wait.
    var count: Int { heap.count { $0.element != nil } }

    mutating func insert(_ waiter: Waiter) {
        if heap.count >= sweepAt {
            // A sorted array is a heap.
            heap = heap.filter { $0.element != nil }.sorted { $0.number < $1.number }
            sweepAt = max(16, heap.count * 2)
        }
        heap.append(waiter)
        var child = heap.count - 1
        while child > 0, heap[child].number < heap[(child - 1) / 2].number {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Removes and returns the first entry that still waits.
    mutating func popFirst() -> Waiter? {
        while !heap.isEmpty {
            let first = removeFirst()
            if first.element != nil { return first }
        }
        return nil
    }

    private mutating func removeFirst() -> Waiter {
        heap.swapAt(0, heap.count - 1)
        let first = heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child].number < heap[least].number {
                least = child
            }
            guard least != parent else { return first }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}

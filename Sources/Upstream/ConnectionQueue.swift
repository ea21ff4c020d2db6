// Who waits for a connection, and in which order they go: first come, first served, among those whose shares of the connections have room;
// what no client waits for goes last. Knows no connections, only how many there may be and how many of the requests have one. A step costs
// the logarithm of how many wait, and, where some are held back, a look at each of their shares: no more than there are connections.

/// A part of the connections: while it is full, the next request that names it waits, and others pass it. Who gives the same name gives the
/// same limit.
public struct ConnectionShare: Hashable, Sendable {
    /// A case and a number rather than a text: it is looked up twice for every request.
    public enum Name: Hashable, Sendable {
        /// Requests whose content is passed on as it comes.
        case streamedContent
        /// The paths of one family.
        case family(UInt64)
        /// All paths that count as failing.
        case failing
        /// Requests whose responses are streams.
        case streams
        /// Requests that may break HTTP/2.
        case keptApart
        /// One client's.
        case client(UInt64)
    }

    public enum Limit: Hashable, Sendable {
        case connections(Int)
        /// As many as are free: one that is well may be slow, such as one of long polls, and then takes half of the connections where it is
        /// the only one, and each of several less; whichever comes next still finds one.
        case free
    }

    public let name: Name
    public let limit: Limit

    public init(_ name: Name, _ limit: Limit) {
        self.name = name
        self.limit = limit
    }
}

/// The shares that a request names: nearly always one, which takes no memory of its own.
public struct ConnectionShares: Sendable, RandomAccessCollection, ExpressibleByArrayLiteral {
    private var only: ConnectionShare?
    private var others: [ConnectionShare] = []

    public init(arrayLiteral shares: ConnectionShare...) { for share in shares { append(share) } }

    public init(_ share: ConnectionShare) { only = share }

    public var startIndex: Int { 0 }
    public var endIndex: Int { only == nil ? 0 : 1 + others.count }
    public subscript(place: Int) -> ConnectionShare { place == 0 ? only! : others[place - 1] }

    public mutating func append(_ share: ConnectionShare) {
        if only == nil { only = share } else { others.append(share) }
    }
}

struct ConnectionQueue<Element> {
    /// A place in the queue. Who gives it up leaves nothing behind in it.
    final class Place {
        fileprivate let number: Int
        fileprivate let shares: ConnectionShares
        /// One of its shares was full when it came.
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
        /// Connections held by running requests that name it.
        var held = 0
        /// Requests in the queue that name it.
        var waiting = 0
        /// Those of them that were found to wait for this share. Each release lets one of them try again.
        var blocked = PlaceHeap<Element>()

        var isUnused: Bool { held == 0 && waiting == 0 }
    }

    private let connections: Int
    private let limit: Int
    private var numbers = 0
    /// Requests that have a connection, or a stream of one.
    private(set) var running = 0
    /// May go, as far as is known.
    private var ready = PlaceHeap<Element>()
    /// With some that nobody uses any more: most are used again soon.
    private var shares: [ConnectionShare.Name: Share] = [:]
    private var sweepAt = 64
    /// The one that was asked for last: nearly always it is asked for again.
    private var latest: (name: ConnectionShare.Name, share: Share)?
    /// Shares of what is free that have blocked places. Each has a connection, else it would not be full: so they are bounded.
    private var waitingForFree: Set<ConnectionShare.Name> = []
    /// How many wait, and how many of them came when one of their shares was full.
    private(set) var count = 0
    private var heldBack = 0

    /// So many requests that come later go before what no client waits for: twice as many as there are connections. It goes in the end, however many
    /// come, since what it brings makes others' waiting shorter.
    private var postponement: Int { 2 * connections }

    /// - Parameters:
    ///   - connections: how many there may be.
    ///   - limit: how many may wait. One share has half of that at most, what no client waits for too, all that find a share of theirs full
    ///     three quarters: so that what is held back leaves room for what is not.
    init(connections: Int, limit: Int) {
        self.connections = connections
        self.limit = limit
    }

    /// Whether nobody waits who may go, as far as is known.
    var isReadyEmpty: Bool { ready.isEmpty }

    /// Whether there is room in the queue for one more that names these shares.
    func mayEnter(_ wanted: ConnectionShares, isBackground: Bool = false) -> Bool {
        guard count < (isBackground ? limit / 2 : limit) else { return false }
        guard !isHeldBack(wanted) || heldBack < max(1, limit * 3 / 4) else { return false }
        return wanted.allSatisfy { shares[$0.name]?.waiting ?? 0 < max(1, limit / 2) }
    }

    /// - Parameter isBackground: no client waits for it: it goes behind those who wait, and some who come later.
    mutating func enter(_ element: Element, _ wanted: ConnectionShares, isBackground: Bool = false) -> Place {
        let number = isBackground ? numbers + postponement : numbers
        let place = Place(number, element, wanted, isHeldBack: isHeldBack(wanted))
        numbers += 1
        count += 1
        if place.isHeldBack { heldBack += 1 }
        for share in wanted { known(share).waiting += 1 }
        ready.insert(place)
        return place
    }

    /// It waits no more.
    mutating func leave(_ place: Place) {
        guard place.element != nil else { return }
        remove(place)
        // It may have been let out of one of these: another may try instead.
        for share in place.shares { unblock(share) }
    }

    /// The first that may go. It holds its shares from now on.
    mutating func next() -> Element? {
        while let place = ready.popFirst() {
            guard let element = place.element else { continue }
            if let full = place.shares.first(where: { !hasRoom($0) }) {
                block(place, full)
            } else {
                remove(place)
                hold(place.shares)
                return element
            }
        }
        return nil
    }

    /// For one that need not wait.
    /// - Returns: false where one of the shares is full; none is held then.
    mutating func take(_ wanted: ConnectionShares) -> Bool {
        if wanted.count == 1 { return take(wanted[0]) }
        for share in wanted where !hasRoom(share) { return false }
        hold(wanted)
        return true
    }

    /// Nearly always there is one, which is looked up once.
    private mutating func take(_ wanted: ConnectionShare) -> Bool {
        let known = known(wanted)
        guard hasRoom(wanted, known) else { return false }
        running += 1
        known.held += 1
        return true
    }

    /// For one that has a connection, and turns out to belong to another share.
    /// - Returns: false where that is full.
    mutating func join(_ wanted: ConnectionShare) -> Bool {
        let known = known(wanted)
        guard hasRoom(wanted, known) else { return false }
        known.held += 1
        return true
    }

    /// One that held these has given its connection back.
    mutating func release(_ held: ConnectionShares) {
        running -= 1
        for share in held { find(share.name)?.held -= 1 }
        for share in held where share.limit != .free { unblock(share) }
        // One more is free for all of them.
        for name in waitingForFree { unblock(ConnectionShare(name, .free)) }
    }

    private func isHeldBack(_ wanted: ConnectionShares) -> Bool { wanted.contains { !hasRoom($0) } }

    private func hasRoom(_ share: ConnectionShare) -> Bool { shares[share.name].map { hasRoom(share, $0) } ?? true }

    private func hasRoom(_ share: ConnectionShare, _ known: Share) -> Bool {
        switch share.limit {
        case .connections(let count): known.held < max(1, count)
        // Who has none waits for a connection alone.
        case .free: known.held == 0 || known.held < connections - running
        }
    }

    private mutating func hold(_ wanted: ConnectionShares) {
        running += 1
        for share in wanted { known(share).held += 1 }
    }

    private mutating func known(_ share: ConnectionShare) -> Share {
        if let known = find(share.name) { return known }
        if shares.count >= sweepAt {
            shares = shares.filter { !$0.value.isUnused }
            latest = nil
            sweepAt = max(64, shares.count * 2)
        }
        let new = Share()
        shares[share.name] = new
        latest = (share.name, new)
        return new
    }

    private mutating func find(_ name: ConnectionShare.Name) -> Share? {
        if let latest, latest.name == name { return latest.share }
        guard let known = shares[name] else { return nil }
        latest = (name, known)
        return known
    }

    private mutating func remove(_ place: Place) {
        place.element = nil
        count -= 1
        if place.isHeldBack { heldBack -= 1 }
        for share in place.shares { shares[share.name]?.waiting -= 1 }
    }

    private mutating func block(_ place: Place, _ full: ConnectionShare) {
        shares[full.name]?.blocked.insert(place)
        if full.limit == .free { waitingForFree.insert(full.name) }
        for share in place.shares where share != full { unblock(share) }
    }

    private mutating func unblock(_ share: ConnectionShare) {
        guard let known = shares[share.name] else {
            waitingForFree.remove(share.name)
            return
        }
        guard hasRoom(share, known) else { return }
        if let place = known.blocked.popFirst() { ready.insert(place) }
        if known.blocked.isEmpty { waitingForFree.remove(share.name) }
    }
}

/// Places by their number, the lowest first. Those that were given up are passed over, and swept out before they are half of all.
private struct PlaceHeap<Element> {
    typealias Place = ConnectionQueue<Element>.Place

    private var heap: [Place] = []
    private var sweepAt = 16

    var isEmpty: Bool { heap.isEmpty }

    mutating func insert(_ place: Place) {
        if heap.count >= sweepAt {
            // In their order they are a heap.
            heap = heap.filter { $0.element != nil }.sorted { $0.number < $1.number }
            sweepAt = max(16, heap.count * 2)
        }
        heap.append(place)
        var child = heap.count - 1
        while child > 0, heap[child].number < heap[(child - 1) / 2].number {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// The first that still waits.
    mutating func popFirst() -> Place? {
        while !heap.isEmpty {
            let first = removeFirst()
            if first.element != nil { return first }
        }
        return nil
    }

    private mutating func removeFirst() -> Place {
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

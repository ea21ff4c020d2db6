// Leases limit the fetches of the fleet: of all nodes that miss a target, only the holder sends a request. The shards of a node share one
// table of leases. The shard that stores the response sends the record and ends the lease together.

import Engine
import Fleet
import HTTPCore
import Reactor
import ResponseCache

/// A lease of this node. Times are the loop's, in milliseconds.
struct HeldLease {
    let recordKeys: RecordKeys
    let owner: ObjectIdentifier
    /// Number of the client that the fetch is for; 0 if the client has no address.
    let client: UInt64
    let began: Int64
    var end: Int64
    /// True once the marker that leads to variants has been offered.
    var isMarkerOffered = false
}

struct LeaseTable {
    /// Maximum number of leases of a node, and of those for requests of one client. Beyond it each node sends its own request.
    static let limit = 1_024
    static let clientLimit = 256

    private(set) var held: [HashedKey: HeldLease] = [:]
    /// Number of leases by client.
    private var counts: [UInt64: Int] = [:]
    /// Targets that are not looked up at other nodes, including those for which every request is sent.
    var eachNode = UnshareableTargets()
    var eachRequest = UnshareableTargets()

    /// Holds a lease. It may replace an earlier one of its key, whatever the limits.
    /// - Returns: false if there are too many leases.
    mutating func hold(_ lease: HeldLease, for key: HashedKey) -> Bool {
        let isFull = held.count >= Self.limit || lease.client != 0 && counts[lease.client] ?? 0 >= Self.clientLimit
        guard !isFull || held[key] != nil else { return false }
        remove(key)
        held[key] = lease
        counts[lease.client, default: 0] += 1
        return true
    }

    @discardableResult
    mutating func remove(_ key: HashedKey) -> HeldLease? {
        guard let lease = held.removeValue(forKey: key) else { return nil }
        let left = (counts[lease.client] ?? 1) - 1
        counts[lease.client] = left > 0 ? left : nil
        return lease
    }

    mutating func renew(_ key: HashedKey, to end: Int64) { held[key]?.end = end }

    mutating func noteMarker(_ key: HashedKey) { held[key]?.isMarkerOffered = true }

    mutating func note(_ mark: LeaseMark, _ target: SeededHash, for milliseconds: Int64, by client: UInt64, now: Int64) {
        eachNode.note(target, for: milliseconds, by: client, now: now)
        if mark == .eachRequest { eachRequest.note(target, for: milliseconds, by: client, now: now) }
    }

    /// - Returns: whether the engine may hold a mark for the target.
    mutating func forget(_ target: SeededHash) -> Bool {
        eachRequest.forget(target)
        return eachNode.forget(target)
    }
}

extension FleetLevel {
    /// Maximum number of this shard's lookups that wait for other nodes' leases. Beyond it each node sends its own request.
    static let waitingLimit = 256
    /// Maximum number of leases that are renewed in one turn of the loop. It takes less than a millisecond.
    private static let renewedAtOnce = 128
    /// Maximum time for which a lease is renewed, in milliseconds, in case its end is missed.
    private static let longestLease: Int64 = 60_000

    /// Starts to hold a lease that this node has obtained.
    /// - Parameters:
    ///   - key: key under which this node will store the response.
    ///   - client: number of the client that the fetch is for.
    /// - Returns: false if there are too many leases. The lease is then released.
    func hold(_ recordKeys: RecordKeys, for key: HashedKey, by client: UInt64) -> Bool {
        let now = loop.batchMilliseconds
        let lease = HeldLease(
            recordKeys: recordKeys, owner: ObjectIdentifier(self), client: client, began: now, end: now + LeaseTimes.expiry)
        guard node.leases.withLock({ $0.hold(lease, for: key) }) else {
            figures.leases[.tooMany, default: 0] += 1
            releaseLease(recordKeys)
            return false
        }
        keepLeases()
        return true
    }

    private func keepLeases() {
        guard renewal == nil else { return }
        renewal = loop.schedule(after: .milliseconds(LeaseTimes.renewal)) { [self] in renewLeases() }
    }

    private func renewLeases() {
        renewal = nil
        let now = loop.batchMilliseconds
        let held = node.leases.withLock { table in
            let own = table.held.filter { $0.value.owner == ObjectIdentifier(self) }.map { (key: $0.key, value: $0.value) }
            for (key, lease) in own where now - lease.began > Self.longestLease { table.remove(key) }
            return own
        }
        guard !held.isEmpty else { return }
        keepLeases()
        guard client.isOpen else { return }
        renew(held.filter { $0.value.end - now < LeaseTimes.expiry - LeaseTimes.renewal / 2 }[...])
    }

    private func renew(_ leases: ArraySlice<(key: HashedKey, value: HeldLease)>) {
        for (key, lease) in leases.prefix(Self.renewedAtOnce) {
            // It may have ended since the last turn.
            guard node.leases.withLock({ $0.held[key]?.began == lease.began }) else { continue }
            renew(key, lease, loop.batchMilliseconds)
        }
        let rest = leases.dropFirst(Self.renewedAtOnce)
        if !rest.isEmpty { loop.inNextRound { [self] in if client.isOpen { renew(rest) } } }
    }

    /// Renews a lease. A lease that has expired is taken again if it is still free.
    private func renew(_ key: HashedKey, _ lease: HeldLease, _ now: Int64) {
        var commands = EngineCommands()
        if lease.end > now { commands.add(Words.set, lease.recordKeys.lease, renewalWords) }
        commands.add(Words.set, lease.recordKeys.lease, leaseWords)
        client.sendAll(commands, patienceMilliseconds: Self.offerPatience) { [self] replies in
            guard let reply = replies.last, reply == .nothing || reply.text != nil else { return }
            let isOurs = reply == .nothing || reply == .bytes(node.name)
            let isHeld = node.leases.withLock { table in
                guard table.held[key]?.began == lease.began else { return false }
                if isOurs { table.renew(key, to: now + LeaseTimes.expiry) } else { table.remove(key) }
                return true
            }
            if reply == .nothing, !isHeld { releaseLease(lease.recordKeys) }
        }
    }

    func releaseLease(_ recordKeys: RecordKeys) {
        var commands = EngineCommands()
        commands.add(Words.unlink, recordKeys.lease)
        client.sendAll(commands, patienceMilliseconds: Self.offerPatience) { _ in }
    }

    public func ended(_ key: [UInt8], _ end: LeaseEnd, by client: UInt64) {
        loop.assertOnLoop()
        let now = loop.batchMilliseconds
        let key = HashedKey(key)
        guard let lease = node.leases.withLock({ $0.remove(key) }) else { return }
        switch end {
        case .served: break
        case .free: if isOurs(lease) { releaseLease(lease.recordKeys) }
        case .stored:
            if lease.isMarkerOffered {
                if isOurs(lease) { releaseLease(lease.recordKeys) }
            } else {
                mark(key, lease, .eachNode, client, now)
            }
        case .eachNode: mark(key, lease, .eachNode, client, now)
        case .eachRequest: mark(key, lease, .eachRequest, client, now)
        }
    }

    /// Marks the target as unshareable. Waiting requests continue at once, and later requests do not wait.
    func mark(_ key: HashedKey, _ lease: HeldLease, _ mark: LeaseMark, _ client: UInt64, _ now: Int64) {
        let milliseconds = UnshareableTargets.milliseconds(upstream: now - lease.began)
        node.leases.withLock { $0.note(mark, key.hash, for: milliseconds, by: client, now: now) }
        guard isOurs(lease) else { return }
        var commands = EngineCommands()
        commands.add(Words.set, lease.recordKeys.lease, EngineWords([[mark.rawValue], Array("PX".utf8), Array(String(milliseconds).utf8)]))
        self.client.sendAll(commands, patienceMilliseconds: Self.offerPatience) { _ in }
    }

    /// Returns false if the lease has expired, because another node may have taken it.
    private func isOurs(_ lease: HeldLease) -> Bool { lease.end > loop.batchMilliseconds }

    /// - Parameter isResponse: false for a marker that leads to variants.
    /// - Returns: the lease that ends with this offer, and whether to remove the lease or a mark from the engine.
    func offering(_ key: [UInt8], isResponse: Bool) -> (lease: HeldLease?, isRemoved: Bool) {
        node.leases.withLock { table in
            guard !table.held.isEmpty || !table.eachNode.isEmpty else { return (nil, false) }
            let key = HashedKey(key)
            let isMarked = table.forget(key.hash)
            guard isResponse else {
                table.noteMarker(key)
                return (nil, isMarked)
            }
            let lease = table.remove(key)
            return (lease, isMarked || lease.map(isOurs) ?? false)
        }
    }

    func noteMark(_ mark: LeaseMark, _ key: [UInt8]) {
        let shortest = UnshareableTargets.milliseconds(upstream: 0)
        node.leases.withLock { $0.note(mark, HashedKey(key).hash, for: shortest, by: 0, now: loop.batchMilliseconds) }
    }

    public func isForEachRequest(_ key: [UInt8]) -> Bool {
        node.leases.withLock { table in
            !table.eachRequest.isEmpty && table.eachRequest.contains(HashedKey(key).hash, now: loop.batchMilliseconds)
        }
    }

    func isForEachNode(_ key: [UInt8]) -> Bool {
        node.leases.withLock { table in
            !table.eachNode.isEmpty && table.eachNode.contains(HashedKey(key).hash, now: loop.batchMilliseconds)
        }
    }
}

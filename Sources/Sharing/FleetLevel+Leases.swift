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
    let began: Int64
    var end: Int64
    /// True once the marker that leads to variants has been offered.
    var isMarkerOffered = false
}

struct LeaseTable {
    var held: [HashedKey: HeldLease] = [:]
    /// Targets that are not looked up at other nodes, including those for which every request is sent.
    var eachNode = UnshareableTargets()
    var eachRequest = UnshareableTargets()

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
    /// Maximum number of leases of a node, and of this shard's lookups that wait for other nodes' leases. Beyond it each node sends its
    /// own request.
    static let leaseLimit = 1_024
    static let waitingLimit = 256
    /// Maximum time for which a lease is renewed, in milliseconds, in case its end is missed.
    private static let longestLease: Int64 = 60_000

    /// Starts to hold a lease that this node has obtained.
    /// - Parameter key: key under which this node will store the response.
    func hold(_ recordKeys: RecordKeys, for key: HashedKey) {
        let now = loop.batchMilliseconds
        let lease = HeldLease(recordKeys: recordKeys, owner: ObjectIdentifier(self), began: now, end: now + LeaseTimes.expiry)
        let isHeld = node.leases.withLock { table in
            guard table.held.count < Self.leaseLimit else { return false }
            table.held[key] = lease
            return true
        }
        guard isHeld else { return releaseLease(recordKeys) }
        keepLeases()
    }

    private func keepLeases() {
        guard renewal == nil else { return }
        renewal = loop.schedule(after: .milliseconds(LeaseTimes.renewal)) { [self] in renewLeases() }
    }

    private func renewLeases() {
        renewal = nil
        let now = loop.batchMilliseconds
        let held = node.leases.withLock { table in
            let own = table.held.filter { $0.value.owner == ObjectIdentifier(self) }
            for (key, lease) in own where now - lease.began > Self.longestLease { table.held[key] = nil }
            return own
        }
        guard !held.isEmpty else { return }
        keepLeases()
        guard client.isOpen else { return }
        for (key, lease) in held where lease.end - now < LeaseTimes.expiry - LeaseTimes.renewal / 2 { renew(key, lease, now) }
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
                if isOurs { table.held[key]?.end = now + LeaseTimes.expiry } else { table.held[key] = nil }
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
        guard let lease = node.leases.withLock({ $0.held.removeValue(forKey: key) }) else { return }
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
                table.held[key]?.isMarkerOffered = true
                return (nil, isMarked)
            }
            let lease = table.held.removeValue(forKey: key)
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

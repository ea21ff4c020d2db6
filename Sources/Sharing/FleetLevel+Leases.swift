// A lease ends soon by itself, so that nobody waits long for a node that is gone, and is renewed while the upstream takes its time, up to a limit: where
// all who waited for another shard's request have left, nobody says that it is over.

import Engine
import HTTPCore
import Reactor

/// That this node asks the upstream for all. Times are the loop's, in milliseconds.
struct HeldLease {
    /// Where the record lies in the engine.
    let place: RecordPlace
    /// When it ends by itself.
    var end: Int64
    /// Until when it is renewed.
    let last: Int64
    /// What leads to variants was given: so what the upstream said can be shared.
    var isGiven = false
}

extension FleetLevel {
    private static let renewalMilliseconds: Int64 = 400
    static let renewingMilliseconds: Int64 = 5_000

    /// To be called where a lease was taken.
    func keepLeases() {
        guard renewal == nil else { return }
        renewal = loop.schedule(after: .milliseconds(Int(Self.renewalMilliseconds))) { [self] in renewLeases() }
    }

    private func renewLeases() {
        renewal = nil
        let now = loop.batchMilliseconds
        // One that has ended may be another's by now.
        let held = leases.filter { $0.value.end > now }
        guard !held.isEmpty else { return }
        keepLeases()
        guard client.isOpen else { return }
        for (key, lease) in held {
            // One that was just taken lasts until the next time.
            guard now < lease.last, lease.end - now < SharedSearch.leaseMilliseconds - Self.renewalMilliseconds / 2 else { continue }
            var commands = EngineCommands()
            commands.add(Words.set, lease.place.lease, renewalWords)
            client.sendAll(commands, patienceMilliseconds: Self.offerPatience) { [self] replies in
                renewed(key, lease, replies[0], end: now + SharedSearch.leaseMilliseconds)
            }
        }
    }

    private func renewed(_ key: HashedKey, _ lease: HeldLease, _ reply: EngineReply, end: Int64) {
        // Another one may have been taken meanwhile.
        guard leases[key]?.end == lease.end else { return }
        switch reply {
        case .status: leases[key]?.end = end
        // It has ended, and may be another's.
        case .nothing: leases[key] = nil
        default: break
        }
    }
}

// Decides which nodes may follow the fleet's log, by a sealed value stored next to the log's epoch. The value names the fleet's sealing
// keys and the upstream of each API. A node with another secret, or with another upstream, is refused.
//
// The value is a version, then for each key of its writer: the key's id | length | sealed(time | count of ids | ids | APIs).

import Fleet

struct FleetAdmission: Equatable, Sendable {
    /// Ids of all sealing keys of the fleet, oldest first, including keys that this node does not have.
    private(set) var keys: [[UInt8]] = []
    /// When the first value was written, in milliseconds of the fleet's time. The keys of older entries are unknown.
    private var since: Int64
    /// Indexed by hashes of the APIs' names.
    private var upstreams: [UInt64: Upstream] = [:]

    private struct Upstream: Equatable, Sendable {
        /// Hash of the upstream's URL.
        var identity: UInt64
        /// When a node that serves it was last known to be connected: milliseconds of the fleet's time.
        var until: Int64
    }

    enum Verdict: Equatable {
        case admitted(FleetAdmission)
        /// This node is admitted once this value is written to the engine. `isFirst`: the engine has no value yet.
        case write([UInt8], FleetAdmission, isFirst: Bool)
        case otherSecret
        /// Other connected nodes have another upstream for an API that this node serves.
        case otherUpstream
    }

    private static let version: UInt8 = 1
    /// Maximum number of key ids: enough for eight changes of the secret within `share.keep`.
    private static let keyLimit = 16
    private static let upstreamLimit = 1_024
    /// How long an upstream counts after the last node that serves it has left, and how often it is renewed: milliseconds.
    static let upstreamMilliseconds: Int64 = 30_000
    private static let renewalMilliseconds: Int64 = 15_000

    /// - Parameters:
    ///   - value: value in the engine; nil if there is none.
    ///   - context: key of the value in the engine.
    static func judge(
        _ value: [UInt8]?, at context: [UInt8], by secrets: FleetSecrets, serving served: [String: String], fleetNow: Int64
    ) -> Verdict {
        var admission = FleetAdmission(since: fleetNow)
        var sealedBy: Set<[UInt8]> = []
        if let value {
            guard let records = records(value), let opened = open(records, at: context, by: secrets) else { return .otherSecret }
            admission = opened
            sealedBy = Set(records.map(\.key))
        }
        let own = secrets.all.map(\.id)
        var isComplete = own.allSatisfy { sealedBy.contains($0) && admission.keys.contains($0) }
        admission.keys += own.reversed().filter { !admission.keys.contains($0) }
        admission.keys = admission.keys.suffix(keyLimit)
        admission.upstreams = admission.upstreams.filter { $0.value.until > fleetNow }
        for (name, url) in served {
            let (name, identity) = (number(name), number(url))
            let known = admission.upstreams[name]
            if let known, known.identity != identity { return .otherUpstream }
            // A time that is further ahead comes from a clock that was wrong, and is corrected.
            if let known, (renewalMilliseconds + 1...upstreamMilliseconds).contains(known.until - fleetNow) { continue }
            guard known != nil || admission.upstreams.count < upstreamLimit else { continue }
            isComplete = false
            admission.upstreams[name] = Upstream(identity: identity, until: fleetNow + upstreamMilliseconds)
        }
        return isComplete ? .admitted(admission) : .write(admission.sealed(at: context, by: secrets), admission, isFirst: value == nil)
    }

    /// Returns whether the entry's sealing key belongs to no node of the fleet.
    func isForeign(_ id: [UInt8], at position: LogPosition) -> Bool {
        !keys.contains(id) && position.milliseconds > UInt64(clamping: since)
    }

    private static func number(_ text: String) -> UInt64 {
        FleetSecret.hash(Array(text.utf8), key: [], bytes: 16)[..<8].reduce(0) { $0 << 8 | UInt64($1) }
    }

    private func sealed(at context: [UInt8], by secrets: FleetSecrets) -> [UInt8] {
        let upstreams = upstreams.sorted { $0.key < $1.key }.flatMap { name, upstream in
            [name, upstream.identity, UInt64(bitPattern: upstream.until)].flatMap(\.bigEndianBytes)
        }
        let plain = UInt64(bitPattern: since).bigEndianBytes + [UInt8(keys.count)] + keys.flatMap(\.self) + upstreams
        return secrets.all.reduce(into: [Self.version]) { value, secret in
            let sealed = secret.seal(plain, at: context)
            value += secret.id + UInt64(sealed.count).bigEndianBytes + sealed
        }
    }

    private static func records(_ value: [UInt8]) -> [(key: [UInt8], sealed: [UInt8])]? {
        var (rest, records) = (value[...], [(key: [UInt8], sealed: [UInt8])]())
        guard rest.popFirst() == version else { return nil }
        while !rest.isEmpty {
            guard let key = rest.take(FleetSecret.idBytes), let length = rest.takeNumber(), let sealed = rest.take(Int(clamping: length))
            else { return nil }
            records.append((Array(key), Array(sealed)))
        }
        return records
    }

    private static func open(_ records: [(key: [UInt8], sealed: [UInt8])], at context: [UInt8], by secrets: FleetSecrets) -> FleetAdmission?
    {
        for secret in secrets.all {
            for record in records where record.key == secret.id {
                if let plain = secret.open(record.sealed, at: context[...]), let admission = FleetAdmission(plain) { return admission }
            }
        }
        return nil
    }

    private init(since: Int64) { self.since = since }

    private init?(_ plain: [UInt8]) {
        var rest = plain[...]
        guard let since = rest.takeNumber(), let count = rest.popFirst(), var ids = rest.take(Int(count) * FleetSecret.idBytes),
            rest.count % 24 == 0
        else { return nil }
        self.since = Int64(bitPattern: since)
        while let id = ids.take(FleetSecret.idBytes) { keys.append(Array(id)) }
        while let name = rest.takeNumber(), let identity = rest.takeNumber(), let until = rest.takeNumber() {
            upstreams[name] = Upstream(identity: identity, until: Int64(bitPattern: until))
        }
    }
}

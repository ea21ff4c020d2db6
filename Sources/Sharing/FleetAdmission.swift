// Who may follow the fleet's log: a value beside the log's epoch, which the first node makes and every node has to open. It names the keys by which nodes
// seal, and the upstream of each API. So a node with another secret, or with another upstream, stays out before it says anything.
//
// The value is a version, then for each key of its writer: the key's id | length | sealed(time | count of ids | ids | APIs). A node seals by its own keys
// only.

import CHash
import Fleet

struct FleetAdmission: Equatable, Sendable {
    /// Ids of all keys of the fleet, the oldest first: also of those that this node does not have. An entry by one of these may mean anything.
    private(set) var keys: [[UInt8]] = []
    /// When the first value was made, milliseconds of the fleet's time: by which keys older entries were sealed is not known.
    private var since: Int64
    /// By the API's name, hashed.
    private var upstreams: [UInt64: Upstream] = [:]

    private struct Upstream: Equatable, Sendable {
        /// Hash of its URL.
        var identity: UInt64
        /// A node that serves it was connected until then: milliseconds of the fleet's time.
        var until: Int64
    }

    enum Verdict: Equatable {
        case admitted(FleetAdmission)
        /// Admitted once this value is in the engine.
        /// - Parameter isFirst: there is none.
        case write([UInt8], FleetAdmission, isFirst: Bool)
        /// None of this node's secrets opens it.
        case otherSecret
        /// Other nodes, which are connected, have another upstream for an API that this node serves.
        case otherUpstream
    }

    private static let version: UInt8 = 1
    /// Keys that are remembered: eight changes of the secret within `share.keep`.
    private static let keyLimit = 16
    private static let upstreamLimit = 1_024
    /// How long an upstream counts after a node that serves it was connected last, and when that is renewed: milliseconds. A rolling change of an
    /// upstream's address takes so long after the last node with the former one.
    static let upstreamMilliseconds: Int64 = 30_000
    private static let renewalMilliseconds: Int64 = 15_000

    /// - Parameters:
    ///   - value: what lies in the engine; nil: nothing.
    ///   - place: its key.
    ///   - served: URLs of upstreams by the names of their APIs.
    static func judge(
        _ value: [UInt8]?, at place: [UInt8], by secrets: FleetSecrets, serving served: [String: String], fleetNow: Int64
    ) -> Verdict {
        var admission = FleetAdmission(since: fleetNow)
        var sealedBy: Set<[UInt8]> = []
        if let value {
            guard let records = records(value), let opened = open(records, at: place, by: secrets) else { return .otherSecret }
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
            if let known, known.until - fleetNow > renewalMilliseconds { continue }
            guard known != nil || admission.upstreams.count < upstreamLimit else { continue }
            isComplete = false
            // Never longer than a clock that was wrong for a moment says.
            admission.upstreams[name] = Upstream(identity: identity, until: fleetNow + upstreamMilliseconds)
        }
        return isComplete ? .admitted(admission) : .write(admission.sealed(at: place, by: secrets), admission, isFirst: value == nil)
    }

    /// Whether an entry is by a key that no node of the fleet has.
    /// - Parameter id: as the entry names it.
    func isForeign(_ id: [UInt8], at position: LogPosition) -> Bool {
        !keys.contains(id) && position.milliseconds > UInt64(clamping: since)
    }

    private static func number(_ text: String) -> UInt64 {
        var bytes = [UInt8](repeating: 0, count: 16)
        let text = Array(text.utf8)
        crypto_generichash(&bytes, 16, text, UInt64(text.count), nil, 0)
        return bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }
    }

    // MARK: Bytes

    private func sealed(at place: [UInt8], by secrets: FleetSecrets) -> [UInt8] {
        let upstreams = upstreams.sorted { $0.key < $1.key }.flatMap { name, upstream in
            [name, upstream.identity, UInt64(bitPattern: upstream.until)].flatMap(Self.bytes)
        }
        let plain = Self.bytes(UInt64(bitPattern: since)) + [UInt8(keys.count)] + keys.flatMap(\.self) + upstreams
        return secrets.all.reduce(into: [Self.version]) { value, secret in
            let sealed = secret.seal(plain, at: place)
            value += secret.id + Self.bytes(UInt64(sealed.count)) + sealed
        }
    }

    private static func bytes(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    private static func records(_ value: [UInt8]) -> [(key: [UInt8], sealed: [UInt8])]? {
        guard value.first == version else { return nil }
        var (rest, records) = (value[1...], [(key: [UInt8], sealed: [UInt8])]())
        while !rest.isEmpty {
            let head = rest.prefix(FleetSecret.idBytes + 8)
            guard head.count == FleetSecret.idBytes + 8 else { return nil }
            let length = Int(clamping: head.suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
            rest = rest.dropFirst(head.count)
            guard length <= rest.count else { return nil }
            records.append((Array(head.prefix(FleetSecret.idBytes)), Array(rest.prefix(length))))
            rest = rest.dropFirst(length)
        }
        return records
    }

    private static func open(_ records: [(key: [UInt8], sealed: [UInt8])], at place: [UInt8], by secrets: FleetSecrets) -> FleetAdmission? {
        for secret in secrets.all {
            for record in records where record.key == secret.id {
                if let plain = secret.open(record.sealed, at: place[...]), let admission = FleetAdmission(plain) { return admission }
            }
        }
        return nil
    }

    private init(since: Int64) { self.since = since }

    private init?(_ plain: [UInt8]) {
        func number(at place: Int) -> UInt64 { plain[place...].prefix(8).reduce(0) { $0 << 8 | UInt64($1) } }
        guard plain.count >= 9, plain.count >= 9 + Int(plain[8]) * FleetSecret.idBytes else { return nil }
        since = Int64(bitPattern: number(at: 0))
        let idsEnd = 9 + Int(plain[8]) * FleetSecret.idBytes
        keys = stride(from: 9, to: idsEnd, by: FleetSecret.idBytes).map { Array(plain[$0..<$0 + FleetSecret.idBytes]) }
        guard (plain.count - idsEnd) % 24 == 0 else { return nil }
        for start in stride(from: idsEnd, to: plain.count, by: 24) {
            let numbers = [0, 8, 16].map { number(at: start + $0) }
            upstreams[numbers[0]] = Upstream(identity: numbers[1], until: Int64(bitPattern: numbers[2]))
        }
    }
}

// The observation of the paths of one template: counts by hour, and the state of the targets that were used last.

import CachePolicy
import HTTPCore

struct ObservedPath {
    /// One target with its last data.
    private struct Target {
        var usedAt: Int64
        /// Time of the last observed change; nil before the second.
        var changedAt: Int64?
        /// Hash of the data, 0 if it is unknown; nil if only confirmations without an entity tag were seen.
        var data: UInt64?
        /// Counts changes.
        var version: UInt32 = 1
        var copies = SimulatedCopies()
        var followed: UInt32 = 0
        /// Responses that would have been out of date, by the index of the candidate.
        var outdated = SIMD8<UInt32>()
    }

    private struct Hour {
        let number: Int64
        var counts = ObservedCounts()
    }

    static let targetLimit = 64
    /// Number of targets among which the least recently used is replaced; a power of two.
    private static let choices = 4
    /// Milliseconds after which an unused target may be replaced.
    private static let idleLimit: Int64 = 300_000
    /// Milliseconds.
    static let hour: Int64 = 3_600_000
    /// Number of hours that are kept, including the current one.
    static let hours = 6
    /// Number of targets with a 404 that are remembered; a power of two.
    private static let missingLimit = 16

    var route: UInt16
    /// Path of a route, such as `/users/*`.
    let template: [UInt8]
    private var hours: [Hour] = []
    private var targets: [Target] = []
    /// Hash of each target's cache key and variant; in a separate array, because a fetch scans all of them.
    private var hashes: [UInt64] = []
    /// Fields that select variants.
    private var varying: [[UInt8]] = []
    /// Whether Vary has fields that are not in `varying`, and therefore not compared.
    private var hasUntrackedVary = false
    private var names = ComparedNames()
    /// Targets with a 404, by a part of their hash.
    private var missing: [(hash: UInt64, at: Int64)] = []

    init(route: UInt16, template: [UInt8]) { (self.route, self.template) = (route, template) }

    /// Number of fetches in the current hour and the one before.
    func recentRequests(now: Int64) -> UInt32 {
        hours.reduce(0) { $1.number >= now / Self.hour - 1 ? $0 + $1.counts.requests : $0 }
    }

    /// Adds up the last hours.
    func summary(since: Int64, now: Int64) -> ObservedSummary {
        var counts = ObservedCounts()
        for hour in hours where hour.number >= max(since / Self.hour, now / Self.hour - Int64(Self.hours) + 1) { counts.add(hour.counts) }
        return ObservedSummary(
            route: route, template: String(decoding: template, as: UTF8.self), counts: counts, names: names.results, varying: varying,
            hasUntrackedVary: hasUntrackedVary, unsteady: unsteady)
    }

    /// Candidates with which too many responses for one target would have been out of date.
    private var unsteady: Set<Int> {
        let frequent = targets.filter { Int($0.followed) >= AdviceEvidence.partRequests }
        return Set(
            FreshnessCandidates.seconds.indices.filter { index in
                frequent.contains { Int($0.outdated[index]) * 100 > Int($0.followed) * AdviceEvidence.targetOutdatedPercent }
            })
    }

    // MARK: A fetch

    mutating func note(_ fetch: ObservedFetch, _ message: () -> ObservedMessage, now: Int64) {
        if hours.last?.number != now / Self.hour {
            hours.removeAll { $0.number <= now / Self.hour - Int64(Self.hours) }
            hours.append(Hour(number: now / Self.hour))
        }
        let last = hours.count - 1
        hours[last].counts.noteRequest(at: now, firstByte: fetch.firstByte)
        switch fetch.outcome {
        case .good(let data, let isStated):
            if isStated { hours[last].counts.stated &+= 1 }
            if fetch.partition != 0 { hours[last].counts.partitioned &+= 1 }
            noteGood(data, fetch, message, now: now)
        case .unstored(let reason): hours[last].counts.unstored[reason, default: 0] &+= 1
        case .absent(let status, let isStorable):
            if isStorable {
                noteMissing(fetch.key, now: now)
            } else {
                hours[last].counts.unstored[.status, default: 0] &+= 1
            }
            noteAbsent(status, fetch, message, now: now)
        case .failed(let cause): hours[last].counts.failures[cause, default: 0] &+= 1
        }
    }

    private mutating func noteGood(_ data: ObservedFetch.Data, _ fetch: ObservedFetch, _ message: () -> ObservedMessage, now: Int64) {
        let variants = variants(message)
        let variant = variants.reduce(0, &+)
        let target = index(of: fetch.key ^ variant, now: now)
        let isNewData = target.map { follow($0, data, isForced: fetch.isForced, now: now) } ?? true
        // Data that is known already was compared before.
        guard isNewData || names.isInDoubt(now: now) else { return }
        let message = message()
        if !message.addVarying(to: &varying) { hasUntrackedVary = true }
        guard message.content != 0 else { return }
        let path = ContentHash.number(of: message.target.withoutQuery.span) ^ fetch.partition
        let rest = (path ^ variant) &+ message.likeness &* 0x9e37_79b9_7f4a_7c15
        names.compareArguments(of: message.target, message.content, isNew: isNewData, rest: rest, now: now)
        for (name, value) in zip(varying, variants) {
            let rest = fetch.key ^ (variant &- value)
            names.compare(field: name, value: value, message.content, isNew: isNewData, rest: rest, now: now)
        }
    }

    private func variants(_ message: () -> ObservedMessage) -> [UInt64] {
        guard !varying.isEmpty else { return [] }
        let request = message().request
        return varying.map { Self.hash(of: $0, in: request) }
    }

    /// Compares the data of a target with the earlier one, and simulates the lifetimes.
    /// - Returns: whether the data is new.
    private mutating func follow(
        _ target: Int, _ data: ObservedFetch.Data, isForced: Bool, isStored: Bool = true, now: Int64
    ) -> Bool {
        let last = hours.count - 1
        hours[last].counts.followed &+= 1
        let isNewData = targets[target].usedAt < 0 || noteData(data, ofTarget: target, now: now)
        if case .hash(let hash) = data { targets[target].data = hash }
        targets[target].usedAt = now
        targets[target].followed &+= 1
        targets[target].outdated &+= targets[target].copies.note(
            version: targets[target].version, isForced: isForced, isStored: isStored, now: UInt32(truncatingIfNeeded: now),
            &hours[last].counts.simulated)
        return isNewData
    }

    /// A deletion, or withdrawn access, is a change for clients with a stored response. Other targets are not followed.
    private mutating func noteAbsent(_ status: UInt16, _ fetch: ObservedFetch, _ message: () -> ObservedMessage, now: Int64) {
        let hash = fetch.key ^ variants(message).reduce(0, &+)
        guard [401, 403, 404, 410].contains(status), let target = hashes.firstIndex(of: hash) else { return }
        _ = follow(target, .hash(UInt64(status)), isForced: fetch.isForced, isStored: false, now: now)
    }

    /// - Returns: whether the data has changed.
    private mutating func noteData(_ data: ObservedFetch.Data, ofTarget target: Int, now: Int64) -> Bool {
        let last = hours.count - 1
        switch data {
        case .unchanged: hours[last].counts.unchanged &+= 1
        case .hash(let hash) where hash != 0 && hash == targets[target].data ?? hash: hours[last].counts.unchanged &+= 1
        case .hash:
            hours[last].counts.changed &+= 1
            if let before = targets[target].changedAt {
                hours[last].counts.shortestChange = min(hours[last].counts.shortestChange, now - before)
            }
            targets[target].changedAt = now
            targets[target].version = targets[target].version == .max ? 1 : targets[target].version + 1
            return true
        }
        return false
    }

    /// Hash of a field's name and value.
    private static func hash(of name: [UInt8], in fields: Fields) -> UInt64 {
        var hash = ContentHash.number(of: name.span)
        for line in fields.all(named: name.span) { hash = ContentHash.number(of: line.span, seed: hash) }
        return hash
    }

    private mutating func noteMissing(_ key: UInt64, now: Int64) {
        if missing.isEmpty { missing = Array(repeating: (0, 0), count: Self.missingLimit) }
        let slot = Int(truncatingIfNeeded: key) & (Self.missingLimit - 1)
        let last = hours.count - 1
        hours[last].counts.missing &+= 1
        if missing[slot].hash == key, now - missing[slot].at < ObservedCounts.repeatedWithin {
            hours[last].counts.missingAgain &+= 1
        } else {
            missing[slot] = (key, now)
        }
    }

    /// Returns the slot of a target; nil if it is not followed. A new one has a negative `usedAt`. It replaces the least recently used of a
    /// few if that one is idle, so that random arguments cannot push out the targets in use.
    private mutating func index(of hash: UInt64, now: Int64) -> Int? {
        if let index = hashes.firstIndex(of: hash) {
            guard now - targets[index].usedAt > Int64(Self.hours) * Self.hour else { return index }
            replace(index, by: hash)
            return index
        }
        if targets.count < Self.targetLimit {
            hashes.append(hash)
            targets.append(Target(usedAt: -1))
            return targets.count - 1
        }
        let first = Int(truncatingIfNeeded: hash) & (Self.targetLimit - 1) & ~(Self.choices - 1)
        let oldest = (first..<first + Self.choices).min { targets[$0].usedAt < targets[$1].usedAt } ?? first
        guard now - targets[oldest].usedAt > Self.idleLimit else { return nil }
        replace(oldest, by: hash)
        return oldest
    }

    private mutating func replace(_ index: Int, by hash: UInt64) {
        hashes[index] = hash
        targets[index] = Target(usedAt: -1)
    }
}

/// Observation of the paths of one template.
public struct ObservedSummary: Sendable {
    /// Index of the route.
    public let route: UInt16
    public let template: String
    public var counts: ObservedCounts
    public let names: [ComparedName]
    /// Fields that select variants and could be ignored.
    public let varying: [[UInt8]]
    /// Whether there are other such fields, which were not compared.
    public let hasUntrackedVary: Bool
    /// Candidates with which too many responses for one target would have been out of date.
    public let unsteady: Set<Int>

    public init(
        route: UInt16, template: String, counts: ObservedCounts, names: [ComparedName] = [], varying: [[UInt8]] = [],
        hasUntrackedVary: Bool = false, unsteady: Set<Int> = []
    ) {
        (self.route, self.template, self.counts, self.names, self.varying) = (route, template, counts, names, varying)
        (self.hasUntrackedVary, self.unsteady) = (hasUntrackedVary, unsteady)
    }
}

/// Counts of the fetches of a path in a span of time.
public struct ObservedCounts: Sendable {
    /// Milliseconds of the monotonic clock at the first and the last fetch.
    public var firstAt: Int64 = .max
    public var lastAt: Int64 = .min
    /// Fetches that the upstream answered, or failed to answer.
    public var requests: UInt32 = 0
    /// Number of good responses for observed targets. `effects` and the counts of changes include only these responses.
    public var followed: UInt32 = 0
    /// Good responses with the data of the one before, and with other data.
    public var unchanged: UInt32 = 0
    public var changed: UInt32 = 0
    /// Shortest time in milliseconds between two changes of one target; `.max` if none changed twice.
    public var shortestChange: Int64 = .max
    /// Good responses that state their freshness themselves.
    public var stated: UInt32 = 0
    /// Good responses in a partition of one user.
    public var partitioned: UInt32 = 0
    /// By the index of the candidate.
    var simulated = FreshnessEffects()
    /// Times to the first byte; see `waitBounds`.
    public var waits = Array(repeating: UInt32(0), count: ObservedCounts.waitBounds.count + 1)
    /// 404 and 410 that could be stored, and those that followed another one for the target within `repeatedWithin`.
    public var missing: UInt32 = 0
    public var missingAgain: UInt32 = 0
    /// By the index of the cause in `MetricNames.rescueCauses`.
    public var failures: [UInt8: UInt32] = [:]
    public var unstored: [NotStoredReason: UInt32] = [:]

    public init() {}

    /// By the index of the candidate.
    public var effects: [FreshnessEffect] {
        get { FreshnessCandidates.seconds.indices.map { simulated[$0] } }
        set { for index in newValue.indices { simulated[index] = newValue[index] } }
    }

    /// Upper bounds of `waits` in milliseconds, two for each power of two.
    public static let waitBounds: [Int64] = [1] + (1..<17).flatMap { [Int64(1) << $0, Int64(3) << ($0 - 1)] }
    /// Milliseconds.
    public static let repeatedWithin: Int64 = 10_000

    /// Index in `waits`. A wait that equals a bound is below it.
    static func index(ofWait milliseconds: Int64) -> Int {
        guard milliseconds > 1 else { return 0 }
        let power = Int64.bitWidth - 1 - (milliseconds - 1).leadingZeroBitCount
        let isAboveHalf = power > 0 && milliseconds > Int64(3) << (power - 1)
        return min(power * 2 + (power == 0 || isAboveHalf ? 1 : 0), waitBounds.count)
    }

    mutating func noteRequest(at now: Int64, firstByte: Int64) {
        requests &+= 1
        (firstAt, lastAt) = (min(firstAt, now), max(lastAt, now))
        if firstByte >= 0 { waits[Self.index(ofWait: firstByte / 1_000)] &+= 1 }
    }

    public mutating func add(_ other: ObservedCounts) {
        (firstAt, lastAt) = (min(firstAt, other.firstAt), max(lastAt, other.lastAt))
        requests &+= other.requests
        followed &+= other.followed
        unchanged &+= other.unchanged
        changed &+= other.changed
        shortestChange = min(shortestChange, other.shortestChange)
        stated &+= other.stated
        partitioned &+= other.partitioned
        missing &+= other.missing
        missingAgain &+= other.missingAgain
        simulated.add(other.simulated)
        for index in waits.indices { waits[index] &+= other.waits[index] }
        failures.merge(other.failures, uniquingKeysWith: &+)
        unstored.merge(other.unstored, uniquingKeysWith: &+)
    }

    /// Milliseconds between the first and the last fetch.
    public var span: Int64 { max(0, lastAt &- firstAt) }

    /// Upper bound in milliseconds of a quantile of the times to the first byte; nil if none was measured.
    public func wait(_ quantile: Double) -> Int64? {
        let total = waits.reduce(0) { $0 + UInt64($1) }
        guard total > 0 else { return nil }
        var left = UInt64((Double(total) * quantile).rounded(.up))
        for (index, count) in waits.enumerated() {
            if UInt64(count) >= left { return index < Self.waitBounds.count ? Self.waitBounds[index] : Self.waitBounds[index - 1] * 2 }
            left -= UInt64(count)
        }
        return nil
    }

    /// Number of fetches with a longer time to the first byte, as far as the bounds show.
    public func waits(above milliseconds: Int64) -> UInt64 {
        zip(waits.indices, waits).reduce(0) { sum, one in
            let lower = one.0 == 0 ? 0 : Self.waitBounds[one.0 - 1]
            return lower >= milliseconds ? sum + UInt64(one.1) : sum
        }
    }
}

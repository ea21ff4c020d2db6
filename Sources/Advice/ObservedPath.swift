// The observation of the paths of one template: counts by hour, and the state of the targets that were used last.

import CachePolicy
import HTTPCore

struct ObservedPath {
    /// One target with its last data.
    private struct Target {
        var usedAt: Int64
        /// Time of the last observed change; nil before the second.
        var changedAt: Int64?
        /// Hash of the data; 0 if it is unknown.
        var data: UInt64
        /// Counts changes.
        var version: UInt32 = 1
        var copies = SimulatedCopies()
    }

    private struct Hour {
        let number: Int64
        var counts = ObservedCounts()
    }

    /// Maximum number of targets.
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

    let route: UInt16
    /// Path of a route, such as `/users/*`.
    let template: [UInt8]
    private var hours: [Hour] = []
    private var targets: [Target] = []
    /// Hash of each target's cache key and variant; in a separate array, because a fetch scans all of them.
    private var hashes: [UInt64] = []
    /// Fields that select variants.
    private var varying: [[UInt8]] = []
    private var names = ComparedNames()
    /// Targets with a 404, by a part of their hash.
    private var missing: [(hash: UInt64, at: Int64)] = []

    init(route: UInt16, template: [UInt8]) { (self.route, self.template) = (route, template) }

    init(_ other: ObservedPath, route: UInt16) {
        self = ObservedPath(route: route, template: other.template)
        (hours, targets, hashes) = (other.hours, other.targets, other.hashes)
        (varying, names, missing) = (other.varying, other.names, other.missing)
    }

    /// Number of fetches in the current hour and the one before.
    func recentRequests(now: Int64) -> UInt32 {
        hours.reduce(0) { $1.number >= now / Self.hour - 1 ? $0 + $1.counts.requests : $0 }
    }

    /// Adds up the last hours.
    func summary(since: Int64, now: Int64) -> ObservedSummary {
        var counts = ObservedCounts()
        for hour in hours where hour.number >= max(since / Self.hour, now / Self.hour - Int64(Self.hours) + 1) { counts.add(hour.counts) }
        return ObservedSummary(
            route: route, template: String(decoding: template, as: UTF8.self), counts: counts, names: names.results, varying: varying)
    }

    // MARK: A fetch

    mutating func note(_ fetch: ObservedFetch, _ message: ObservedMessage, now: Int64) {
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
        case .missing: noteMissing(fetch.key, now: now)
        case .failed(let cause): hours[last].counts.failures[cause, default: 0] &+= 1
        }
    }

    private mutating func noteGood(_ data: ObservedFetch.Data, _ fetch: ObservedFetch, _ message: ObservedMessage, now: Int64) {
        let variants = varying.isEmpty ? [] : varying.map { Self.hash(of: $0, in: message.request) }
        let variant = variants.reduce(0, &+)
        let isNews = follow(fetch.key ^ variant, data, isForced: fetch.isForced, now: now)
        // Data that is known already was compared before.
        guard isNews else { return }
        message.addVarying(to: &varying)
        guard case .hash(let hash) = data, hash != 0 else { return }
        let path = ContentHash.number(of: message.target.withoutQuery.span) ^ fetch.partition
        names.compareArguments(of: message.target, hash, rest: path ^ variant, now: now)
        for (name, value) in zip(varying, variants) {
            names.compare(field: name, value: value, hash, rest: fetch.key ^ (variant &- value), now: now)
        }
    }

    /// Compares the data of a target with the earlier one, and simulates the lifetimes.
    /// - Parameter hash: of cache key and variant.
    /// - Returns: whether the data is new, or the target is not followed.
    private mutating func follow(_ hash: UInt64, _ data: ObservedFetch.Data, isForced: Bool, now: Int64) -> Bool {
        guard let target = index(of: hash, now: now) else { return true }
        let last = hours.count - 1
        hours[last].counts.followed &+= 1
        let isNews = targets[target].usedAt < 0 || noteData(data, ofTarget: target, now: now)
        if case .hash(let hash) = data { targets[target].data = hash }
        targets[target].usedAt = now
        targets[target].copies.note(
            version: targets[target].version, isForced: isForced, now: UInt32(truncatingIfNeeded: now), &hours[last].counts.simulated)
        return isNews
    }

    /// - Returns: whether the data has changed.
    private mutating func noteData(_ data: ObservedFetch.Data, ofTarget target: Int, now: Int64) -> Bool {
        let last = hours.count - 1
        switch data {
        case .unchanged: hours[last].counts.unchanged &+= 1
        case .hash(let hash) where hash != 0 && hash == targets[target].data: hours[last].counts.unchanged &+= 1
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
            targets.append(Target(usedAt: -1, data: 0))
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
        targets[index] = Target(usedAt: -1, data: 0)
    }
}

/// What was observed of the paths of one template.
public struct ObservedSummary: Sendable {
    /// Index of the route.
    public let route: UInt16
    public let template: String
    public var counts: ObservedCounts
    public let names: [ComparedName]
    /// Fields that select variants and could be ignored.
    public let varying: [[UInt8]]

    public init(route: UInt16, template: String, counts: ObservedCounts, names: [ComparedName] = [], varying: [[UInt8]] = []) {
        (self.route, self.template, self.counts, self.names, self.varying) = (route, template, counts, names, varying)
    }
}

// What failed lately and may come back: what does within some minutes is the same trouble, which goes on and off. Bounded; pure: times are
// passed in.

/// Something that fails, or did a moment ago.
struct LastingFailure: Sendable {
    let failure: OpenFailure
    /// Milliseconds of the clock that is never set: when the first of it began.
    let since: Int64
    /// It has ended and come back since.
    let isOnAndOff: Bool
    /// Since when it does not fail; nil while it does.
    let endedAt: Int64?

    var isOpen: Bool { endedAt == nil }
    var isOfAll: Bool { failure.isOfAll }
    var route: String? { failure.route }
    var kind: String { failure.kind }
    var user: UInt64? { failure.user }
    var cause: String { failure.causeText }
}

extension [LastingFailure] {
    /// What has been failing for longest.
    var eldest: LastingFailure? { self.min { $0.since < $1.since } }

    /// What makes all of it be down now, if anything does.
    var outage: LastingFailure? { filter { $0.isOfAll && $0.isOpen }.eldest }
}

struct FailureHistory: Sendable {
    private struct Place: Hashable {
        let api: String
        /// Of the scope, and whose it is.
        let name: String
        let user: UInt64?
    }

    private struct Known {
        var failure: OpenFailure
        var since: Int64
        var isOnAndOff = false
        /// When it was seen to fail last.
        var seenAt: Int64
        var isOpen = true
    }

    /// Milliseconds within which what comes back is the same.
    static let gap: Int64 = 300_000
    /// Of more it is not known whether they come back.
    static let limit = 1_000

    private var known: [Place: Known] = [:]

    /// - Parameter open: all that fails of this API now.
    /// - Returns: the same with what came before; and what goes on and off, and does not fail just now.
    mutating func note(_ open: [OpenFailure], of api: String, now: Int64) -> [LastingFailure] {
        // Also what was of an API that is served no more: it would take others' room for good.
        known = known.filter { now - $0.value.seenAt <= Self.gap }
        var (troubles, seen): ([LastingFailure], Set<Place>) = ([], [])
        for failure in open {
            let place = Place(api: api, name: failure.name, user: failure.user)
            guard !seen.contains(place) else { continue }
            seen.insert(place)
            var one = known[place] ?? Known(failure: failure, since: failure.since, seenAt: now)
            // What began anew between two looks has ended in between.
            if !one.isOpen || failure.since > one.failure.since { one.isOnAndOff = true }
            (one.failure, one.isOpen, one.seenAt) = (failure, true, now)
            if known[place] != nil || known.count < Self.limit { known[place] = one }
            troubles.append(
                LastingFailure(failure: failure, since: min(one.since, failure.since), isOnAndOff: one.isOnAndOff, endedAt: nil))
        }
        for (place, one) in known where place.api == api && !seen.contains(place) {
            known[place]?.isOpen = false
            guard one.isOnAndOff else { continue }
            troubles.append(LastingFailure(failure: one.failure, since: one.since, isOnAndOff: true, endedAt: one.seenAt))
        }
        return troubles
    }
}

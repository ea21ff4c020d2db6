// Decides whether an unexpected response is intended, or comes from a gateway that fails for many targets in one way. Applies to targets
// with a stored response. A pure state machine: times are passed in, and memory is bounded.
//
//     state of a target   event                                    next state
//     good                an unexpected response                   odd: counts for the crowd of its kind for one window
//     odd                 the same kind of response                odd, since the first; replaced while its crowd is open
//     odd                 another kind of response                 odd, from now on
//     odd                 a good response                          good; the crowd of its kind closes
//     odd: page, content  a failure of the upstream                good
//     odd                 `longest` after its first                intended: forwarded, counts for no crowd until a good response
//
//     state of a crowd    event                                    next state
//     closed              the rule below holds                     open, for `longest` at most
//     open                a good response of one of its targets    closed; its targets count again from their next unexpected response
//
// The rule for 404 and 403: within one window at least ten targets turned odd, they are a tenth of the requested targets, and two
// clients saw them.
// To rule out one client plus another client's accidental 404, the remaining clients must agree when either of the two most frequent
// clients is excluded. They saw a twentieth of their targets turn odd, and either ten of them, or more than half of those requested since
// the first turned. If only one client sends requests, the crowd applies to that client alone. The addresses of one user count as one
// client: a user may delete many resources.
// For redirects, two targets that lead to one address suffice. A redirect to a login or error page, and content that is not good, need no
// crowd. Content that is not good becomes intended only while a tenth of the requested targets, and at least one, have good responses.
// A request unlike the one that fetched the stored response changes no state; an open crowd applies to it.

/// Kind of an unexpected response for a target with a stored response.
public enum Surprise: Sendable, Hashable {
    /// 404.
    case notFound
    /// 403 in another media type than the stored response.
    case forbidden
    /// A redirect.
    /// - Parameter address: hash of the origin and path that it leads to.
    case redirect(address: UInt64)
    /// A redirect that appears to lead to a login, error or maintenance page.
    case page(address: UInt64)
    /// Content that is not good: of another type than the stored response, invalid JSON, or none.
    case content

    /// nil for `content`, which has several.
    public var fault: UpstreamFault? {
        switch self {
        case .notFound, .forbidden: .crowd
        case .redirect, .page: .redirected
        case .content: nil
        }
    }

    fileprivate var isPage: Bool { if case .page = self { true } else { false } }

    /// Whether a response is replaced without a crowd.
    fileprivate var needsNoCrowd: Bool {
        switch self {
        case .page, .content: true
        case .notFound, .forbidden, .redirect: false
        }
    }
}

/// Memory of targets and of open crowds. `Note` is an opaque value that the caller attaches to an odd target and gets back when the
/// target's crowd opens.
public struct Crowds<Note: Sendable>: Sendable {
    /// A client by its address, or by its credentials.
    private enum Client: Equatable, Sendable {
        case address(UInt64)
        case user(UInt64)
    }

    /// A request for a target, with the time.
    private struct Sighting: Sendable {
        var witness: UInt64 = 0
        /// The user to whom the target's stored response belongs; 0 if it belongs to several.
        var user: UInt64 = 0
        var time: Int64 = .min / 2

        func isOf(_ client: Client) -> Bool { client == .address(witness) || client == .user(user) }

        func isBesides(_ client: Client?, since start: Int64) -> Bool { time > start && client.map { !isOf($0) } ?? true }
    }

    private struct Slot: TargetSlot {
        /// 0 marks a free slot.
        var target: UInt64 = 0
        /// The last two different clients. For an odd target, of the clients that saw it odd.
        var last = Sighting()
        var other = Sighting()
        /// nil for a good target.
        var surprise: Surprise?
        /// Time of the first of these unexpected responses. The distant past if the response is intended.
        var since: Int64 = 0
        /// Time when the target began to count for a crowd; nil if it does not count.
        var turned: Int64?
        /// Time of the last good response; the distant past if something else followed.
        var goodAt = Int64.min / 2
        var note: Note?

        /// - Returns: whether this client is new for the target.
        mutating func note(_ sighting: Sighting) -> Bool {
            defer { last = sighting }
            guard !isRepeated(last, by: sighting) else { return false }
            let isNew = !isRepeated(other, by: sighting)
            other = last
            return isNew
        }

        private func isRepeated(_ former: Sighting, by sighting: Sighting) -> Bool {
            (former.witness, former.user) == (sighting.witness, sighting.user) && former.time > .min / 2
        }

        func isSeen(besides client: Client? = nil, since start: Int64) -> Bool {
            last.isBesides(client, since: start) || other.isBesides(client, since: start)
        }
    }

    private struct Opening: Sendable {
        let time: Int64
        /// The only client that the crowd applies to; nil for all clients.
        let only: Client?
    }

    private let window: Int64
    private var slots: TargetSlots<Slot>
    private var open: [Surprise: Opening] = [:]

    /// Maximum number of crowds that are open at once.
    static var crowdLimit: Int { 64 }
    private static var leastTargets: Int { 10 }
    private static var leastRedirects: Int { 2 }
    /// Odd targets must be one in `share` of the requested targets; without the most frequent client, one in `othersShare`.
    private static var share: Int { 10 }
    private static var othersShare: Int { 20 }
    /// Maximum time for which an unexpected response is replaced, in windows.
    static var longestWindows: Int64 { 30 }
    /// A redirect to a page that was not seen for this number of windows starts a new period. An outage may show such a page at its
    /// beginning and at its end.
    private static var longestSilence: Int64 { 10 }

    private var longest: Int64 { window * Self.longestWindows }

    /// - Parameters:
    ///   - window: milliseconds (`failure.window`).
    ///   - targets: maximum number of remembered targets.
    public init(window: Int64, targets: Int = 2_048) {
        self.window = window
        slots = TargetSlots(count: targets)
    }

    /// For tests: number of crowds in memory, including expired ones.
    var openCount: Int { open.count }

    // MARK: Events

    /// Records a good response.
    /// - Parameters:
    ///   - target: hash of the target and its partition; never 0.
    ///   - witness: number for the client's address.
    ///   - user: number for the user to whom the stored response belongs; 0 if it belongs to several.
    ///   - isAlike: whether the response is of the stored response's type.
    public mutating func found(_ target: UInt64, by witness: UInt64, of user: UInt64 = 0, isAlike: Bool = true, now: Int64) {
        let sighting = Sighting(witness: witness, user: user, time: now)
        let index = index(of: target, now)
        guard slots[index].target == target else {
            // A slot that counts for a crowd takes precedence over a good target.
            guard !counts(slots[index], now) else { return }
            slots[index] = Slot(target: target, last: sighting, goodAt: now)
            return
        }
        guard isAlike || slots[index].surprise != .content else { return }
        slots[index].goodAt = now
        if let surprise = slots[index].surprise {
            end(surprise, of: slots[index], now)
            (slots[index].surprise, slots[index].turned, slots[index].note) = (nil, nil, nil)
        }
        _ = slots[index].note(sighting)
    }

    /// Records a failure of the upstream for this target. An earlier redirect to a page, or other content, may have been the beginning of
    /// the failure.
    public mutating func failed(_ target: UInt64, now: Int64) {
        let index = index(of: target, now)
        guard slots[index].target == target else { return }
        slots[index].goodAt = .min / 2
        guard slots[index].surprise?.needsNoCrowd == true, now - slots[index].since < longest else { return }
        slots[index].surprise = nil
    }

    /// Records an unexpected response.
    /// - Parameter isEvidence: whether the request is like the one that fetched the stored response. Any client can provoke a 404 by another
    ///   request.
    /// - Returns: whether the stored response is served instead, and the notes of the targets in a crowd that opens now.
    public mutating func odd(
        _ surprise: Surprise, _ target: UInt64, by witness: UInt64, of user: UInt64 = 0, isEvidence: Bool = true, now: Int64
    ) -> (isReplaced: Bool, notes: [Note]) {
        let sighting = Sighting(witness: witness, user: user, time: now)
        let index = index(of: target, now)
        if !isEvidence, !surprise.isPage {
            let slot = slots[index]
            // Time alone does not show that content is intended: other targets must have had good responses.
            let hasLasted = surprise == .content ? slot.since == .min / 2 : now - slot.since >= longest
            let isIntended = slot.target == target && slot.surprise == surprise && hasLasted
            return (!isIntended && (surprise == .content || isOpen(surprise, for: sighting)), [])
        }
        let isNew = turn(index, surprise, target, by: sighting)
        let isOverdue = now - slots[index].since >= longest && (surprise != .content || areOthersGood(now))
        if isOverdue { slots[index].since = .min / 2 }
        if surprise.needsNoCrowd { return (!isOverdue, []) }
        let notes = isNew ? openIfFull(surprise, by: sighting) : []
        return (!isOverdue && isOpen(surprise, for: sighting), notes)
    }

    /// Attaches a note to an odd target.
    public mutating func attach(_ note: Note, to target: UInt64, now: Int64) {
        let index = index(of: target, now)
        if slots[index].target == target, slots[index].surprise != nil { slots[index].note = note }
    }

    // MARK: Targets

    /// - Returns: whether the response is new evidence.
    private mutating func turn(_ index: Int, _ surprise: Surprise, _ target: UInt64, by sighting: Sighting) -> Bool {
        let now = sighting.time
        var isNew = false
        if slots[index].target != target || slots[index].surprise != surprise || hasBeenSilent(slots[index], now) {
            slots[index] = Slot(target: target, surprise: surprise, since: now, turned: now)
            isNew = true
        } else if slots[index].turned == nil, now - slots[index].since < longest {
            slots[index].turned = now
            isNew = true
        }
        return slots[index].note(sighting) || isNew
    }

    private func hasBeenSilent(_ slot: Slot, _ now: Int64) -> Bool {
        guard slot.surprise?.needsNoCrowd == true, slot.since > .min / 2 else { return false }
        return now - slot.last.time > window * Self.longestSilence
    }

    /// Returns the slot of a target, else the least valuable one: one that does not count and was requested the longest time ago.
    private func index(of target: UInt64, _ now: Int64) -> Int {
        slots.index(of: target) { (counts($0, now) ? 1 : 0, $0.last.time) }
    }

    private func counts(_ slot: Slot, _ now: Int64) -> Bool { slot.turned.map { now - $0 < window } ?? false }

    // MARK: Crowds

    private func isOpen(_ surprise: Surprise, for sighting: Sighting) -> Bool {
        guard let opening = open[surprise], sighting.time - opening.time < longest else { return false }
        return opening.only.map { sighting.isOf($0) && isAlone($0, sighting.time) } ?? true
    }

    /// Returns whether no other client sends requests.
    private func isAlone(_ client: Client, _ now: Int64) -> Bool {
        !slots.all.contains { $0.target != 0 && $0.isSeen(besides: client, since: now - window) }
    }

    private mutating func end(_ surprise: Surprise, of slot: Slot, _ now: Int64) {
        guard open[surprise] != nil, now - slot.since < longest else { return }
        open[surprise] = nil
        for index in slots.all.indices where slots[index].surprise == surprise { slots[index].turned = nil }
    }

    private mutating func openIfFull(_ surprise: Surprise, by sighting: Sighting) -> [Note] {
        guard !isOpen(surprise, for: sighting) else { return [] }
        let now = sighting.time
        let members = slots.all.indices.filter { slots[$0].surprise == surprise && counts(slots[$0], now) }
        var only: Client?
        if case .redirect = surprise {
            guard members.count >= Self.leastRedirects else { return [] }
        } else {
            guard members.count >= Self.leastTargets, isShare(members.count, of: Self.share, now) else { return [] }
            if let client = mostFrequent(in: members, now).first(where: { !othersAgree(besides: $0, members, now) }) {
                guard sighting.isOf(client), isAlone(client, now) else { return [] }
                only = client
            }
        }
        if open.count >= Self.crowdLimit, let oldest = open.min(by: { $0.value.time < $1.value.time })?.key { open[oldest] = nil }
        open[surprise] = Opening(time: now, only: only)
        return members.compactMap { slots[$0].note }
    }

    /// Returns whether `count` is at least one in `part` of the targets requested within the window.
    /// - Parameter client: client to exclude; nil for none.
    private func isShare(_ count: Int, of part: Int, without client: Client? = nil, _ now: Int64) -> Bool {
        let clientCount = slots.all.count { $0.target != 0 && $0.isSeen(besides: client, since: now - window) }
        return count * part >= clientCount
    }

    /// Returns whether the upstream sends good responses for other targets. A few of them, such as a health check, do not suffice.
    private func areOthersGood(_ now: Int64) -> Bool {
        let count = slots.all.count { $0.target != 0 && now - $0.goodAt < window }
        return count > 0 && isShare(count, of: Self.share, now)
    }

    /// Returns whether the clients other than this one are sufficient evidence together.
    private func othersAgree(besides client: Client, _ members: [Int], _ now: Int64) -> Bool {
        let others = members.count { slots[$0].isSeen(besides: client, since: now - window) }
        guard others > 0, isShare(others, of: Self.othersShare, without: client, now) else { return false }
        let start = members.compactMap { slots[$0].turned }.min() ?? now
        let since = slots.all.count { $0.target != 0 && $0.isSeen(besides: client, since: start - 1) }
        return others >= Self.leastTargets || others * 2 > since
    }

    /// Returns the two addresses and the two users that saw most of these targets, the addresses first.
    private func mostFrequent(in members: [Int], _ now: Int64) -> [Client] {
        var addresses: [UInt64: Int] = [:]
        var users: [UInt64: Int] = [:]
        for sighting in members.flatMap({ [slots[$0].last, slots[$0].other] }) where sighting.time > now - window {
            addresses[sighting.witness, default: 0] += 1
            if sighting.user != 0 { users[sighting.user, default: 0] += 1 }
        }
        // Of equal counts, the higher number is first, so that a random schedule can be repeated.
        func highest(_ counts: [UInt64: Int]) -> [UInt64] {
            counts.sorted { ($0.value, $0.key) > ($1.value, $1.key) }.prefix(2).map(\.key)
        }
        return highest(addresses).map { .address($0) } + highest(users).map { .user($0) }
    }
}

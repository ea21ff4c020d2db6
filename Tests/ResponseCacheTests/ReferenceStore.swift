// A small, slow reference store that keeps the latest response. It is simple enough to be obviously correct, and shares no code with the
// tested store.

/// A request: its target, its user, and the values of two fields by which responses may vary.
struct WalkQuestion: Hashable {
    var target: String
    /// Empty for a request without credentials.
    var user: String
    var values: [String: String]

    var place: WalkPlace { WalkPlace(target: target, user: user) }
}

struct WalkPlace: Hashable {
    var target: String
    var user: String
}

/// Times of a request and its response in milliseconds. Equal times are ordered by the number.
struct WalkTimes: Equatable {
    /// Number of the process that stored the response.
    var run: Int
    var number: Int
    var asked: Int
    var came: Int
    var isImported = false

    /// Whether a response with these times must not replace one with the others.
    func isOutdated(by stored: WalkTimes) -> Bool {
        if isImported { return asked <= stored.asked || came <= stored.came }
        if run != stored.run || number >= stored.number { return false }
        return !stored.isImported || stored.asked >= asked
    }
}

struct WalkResponse: Equatable {
    var version: String
    /// The names of the fields by which it varies, in order.
    var names: [String]
    var times: WalkTimes
    /// Marked by a soft purge, or because it is unknown whether the response is still valid.
    var isMarkedStale = false
    /// A response to HEAD showed that the resource has changed.
    var hasChanged = false
}

struct ReferenceStore {
    /// Stored responses of a target and user. All vary by these fields.
    private struct Shelf {
        var names: [String]
        var latest: WalkTimes
        /// Times of the response that this one replaced. Older responses are not stored.
        var replaced: WalkTimes?
        var responses: [[String]: WalkResponse] = [:]
    }

    private var shelves: [WalkPlace: Shelf] = [:]
    private var written: [String: Int] = [:]
    /// Times of writes that count for pending requests only. A purge does not reset them.
    private var lately: [String: Int] = [:]
    private var purged = Int.min

    private static func selected(_ names: [String], _ question: WalkQuestion) -> [String] { names.map { question.values[$0] ?? "" } }

    func find(_ question: WalkQuestion) -> WalkResponse? {
        guard let shelf = shelves[question.place] else { return nil }
        return shelf.responses[Self.selected(shelf.names, question)]
    }

    func isEmpty(_ place: WalkPlace) -> Bool { shelves[place] == nil }

    enum Result { case stored, outdated, invalidated }

    mutating func store(_ response: WalkResponse, for question: WalkQuestion) -> Result {
        if !response.times.isImported, response.times.asked <= purged { return .invalidated }
        if let time = written[question.target], response.times.asked <= time { return .invalidated }
        if !response.times.isImported, let time = lately[question.target], response.times.asked <= time { return .invalidated }
        let values = Self.selected(response.names, question)
        var replaced: WalkTimes?
        if let shelf = shelves[question.place] {
            if shelf.names == response.names {
                if let before = shelf.replaced, response.times.isOutdated(by: before) { return .outdated }
                if let stored = shelf.responses[values], response.times.isOutdated(by: stored.times) { return .outdated }
            } else if response.times.isOutdated(by: shelf.latest) {
                return .outdated
            } else {
                replaced = shelf.latest
                shelves[question.place] = nil
            }
        }
        var shelf = shelves[question.place] ?? Shelf(names: response.names, latest: response.times, replaced: replaced)
        if !response.times.isOutdated(by: shelf.latest) { shelf.latest = response.times }
        shelf.responses[values] = response
        shelves[question.place] = shelf
        return .stored
    }

    /// Handles a 304 to a request that had found a stored response.
    mutating func confirm(_ found: WalkResponse, _ times: WalkTimes, for question: WalkQuestion) {
        guard var now = find(question) else {
            guard isEmpty(question.place) else { return }
            return update(found, times, question)
        }
        if now.times == found.times || (!times.isOutdated(by: now.times) && now.version == found.version) {
            update(now, times, question)
        } else if !times.isOutdated(by: now.times) {
            // It is unknown which of the two is valid.
            now.isMarkedStale = true
            replace(now, question)
        }
    }

    /// Handles a response to HEAD.
    mutating func compare(_ version: String, _ times: WalkTimes, for question: WalkQuestion) {
        guard var now = find(question), !times.isOutdated(by: now.times) else { return }
        if now.version == version { return update(now, times, question) }
        guard !now.hasChanged, times.asked > purged, let latest = shelves[question.place]?.latest else { return }
        (now.hasChanged, now.isMarkedStale) = (true, false)
        now.times.number = max(now.times.number, times.number)
        (now.times.run, now.times.isImported) = (times.run, false)
        replace(now, question)
        if !now.times.isOutdated(by: latest) { shelves[question.place]?.latest = now.times }
    }

    private mutating func update(_ response: WalkResponse, _ times: WalkTimes, _ question: WalkQuestion) {
        let fresh = WalkResponse(version: response.version, names: response.names, times: times)
        _ = store(fresh, for: question)
    }

    private mutating func replace(_ response: WalkResponse, _ question: WalkQuestion) {
        guard let shelf = shelves[question.place] else { return }
        shelves[question.place]?.responses[Self.selected(shelf.names, question)] = response
    }

    mutating func write(_ target: String, now: Int) {
        if let last = written[target], (0..<1000).contains(last - now) { written[target] = last + 1 } else { written[target] = now }
        lately[target] = max(lately[target] ?? .min, written[target] ?? now)
        for place in shelves.keys where place.target == target {
            // A user's own markers stay; the responses that they lead to are removed.
            if place.user.isEmpty || shelves[place]?.names.isEmpty == true { shelves[place] = nil } else { shelves[place]?.responses = [:] }
        }
    }

    mutating func purge(isSoft: Bool, now: Int) {
        purged = now
        guard isSoft else {
            shelves = [:]
            written = [:]
            return
        }
        for place in Array(shelves.keys) {
            for values in Array(shelves[place]!.responses.keys) { shelves[place]!.responses[values]!.isMarkedStale = true }
        }
    }

    /// These times count for pending requests only, which a restart ends.
    mutating func restart() { (purged, lately) = (.min, [:]) }
}

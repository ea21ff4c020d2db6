// What the fetches of one API show about its paths: how often data changes, which arguments make no difference, how long the upstream takes,
// and what fails. Hits are not observed. Memory is bounded by the number of paths, of which each uses at most 24 KiB.

import HTTPCore

public struct TrafficObservation {
    /// Maximum number of paths; 0 disables the observation.
    public let limit: Int
    private var paths: [ObservedPath] = []
    /// By the hash of route and template.
    private var indices: [UInt64: Int] = [:]
    private var words = PathWords()
    /// The last paths by a part of their hash, with the index of their observation.
    private var memo: [(hash: UInt64, path: Int32)] = []
    /// Fetches of paths that were not observed: unknown ones, and those for which there was no space.
    public private(set) var unknown: UInt64 = 0
    public private(set) var rejected: UInt64 = 0
    /// Paths that were replaced by others.
    public private(set) var replaced: UInt64 = 0
    /// Time of the last fetch.
    private var latest: Int64 = .min
    /// Time before which no replaceable path is searched again.
    private var searchAt: Int64 = .min
    /// The hour of the memo. A new hour begins with an empty one, so that the words in use are noted as such.
    private var memoHour: Int64 = 0

    /// Number of remembered paths; a power of two.
    private static let remembered = 1_024
    /// A path with fewer fetches in the last two hours may be replaced.
    private static let replaceableBelow: UInt32 = 8
    /// Milliseconds between two searches for a replaceable path, and the number of random paths that each examines.
    private static let searchInterval: Int64 = 1_000
    private static let searched = 8

    public init(limit: Int) { self.limit = limit }

    /// Continues the observation of another one. The counters begin at 0.
    /// - Parameter route: returns the present route of a template with a former route; nil if its observation ends.
    public init(limit: Int, after former: TrafficObservation, route: (_ former: UInt16, _ template: [UInt8]) -> UInt16?) {
        self.limit = limit
        words = former.words
        for var path in former.paths {
            guard paths.count < limit, let route = route(path.route, path.template) else { continue }
            path.route = route
            paths.append(path)
        }
        indexPaths()
    }

    private mutating func indexPaths() {
        indices = [:]
        memo = []
        for (index, path) in paths.enumerated() { indices[Self.hash(path.template[...], of: path.route)] = index }
    }

    public var count: Int { paths.count }

    /// Returns the observation of a path since a time, in whole hours of the monotonic clock.
    /// - Returns: nil if there is no path with this index.
    public func summary(_ index: Int, since: Int64, now: Int64) -> ObservedSummary? {
        paths.indices.contains(index) ? paths[index].summary(since: since, now: now) : nil
    }

    /// - Parameters:
    ///   - target: path and query.
    ///   - message: evaluated for new data.
    ///   - now: milliseconds of the monotonic clock.
    public mutating func note(
        _ fetch: ObservedFetch, _ target: ArraySlice<UInt8>, _ message: () -> ObservedMessage, now: Int64
    ) {
        guard limit > 0 else { return }
        // The clocks of event loops differ by the time since their last events.
        latest = max(latest, now)
        let (now, path) = (latest, target.withoutQuery)
        if now / ObservedPath.hour != memoHour { (memo, memoHour) = ([], now / ObservedPath.hour) }
        if memo.isEmpty { memo = Array(repeating: (0, -1), count: Self.remembered) }
        let hash = Self.hash(path, of: fetch.route)
        let slot = Int(truncatingIfNeeded: hash) & (Self.remembered - 1)
        if memo[slot].hash == hash, memo[slot].path >= 0 { return paths[Int(memo[slot].path)].note(fetch, message, now: now) }
        var isCertain = true
        guard let index = index(of: path, fetch, now: now, &isCertain) else { return }
        if isCertain, !memo.isEmpty { memo[slot] = (hash, Int32(index)) }
        paths[index].note(fetch, message, now: now)
    }

    private static func hash(_ path: ArraySlice<UInt8>, of route: UInt16) -> UInt64 {
        ContentHash.number(of: path.span, seed: UInt64(route))
    }

    /// - Parameter isCertain: becomes false if another template may be found for this path later.
    private mutating func index(of path: ArraySlice<UInt8>, _ fetch: ObservedFetch, now: Int64, _ isCertain: inout Bool) -> Int? {
        guard let template = template(of: path, fetch, now: now, &isCertain) else {
            unknown &+= 1
            return nil
        }
        let hash = Self.hash(template[...], of: fetch.route)
        if let index = indices[hash], paths[index].template == template { return index }
        guard fetch.showsPath else {
            unknown &+= 1
            return nil
        }
        let new = ObservedPath(route: fetch.route, template: template)
        if paths.count < limit {
            indices[hash] = paths.count
            paths.append(new)
            return paths.count - 1
        }
        guard let index = replaceable(now: now) else {
            rejected &+= 1
            return nil
        }
        memo = []
        indices[Self.hash(paths[index].template[...], of: paths[index].route)] = nil
        indices[hash] = index
        paths[index] = new
        replaced &+= 1
        return index
    }

    /// Returns an unused path among a few; nil if all are in use, so that many other paths cannot push them out.
    private mutating func replaceable(now: Int64) -> Int? {
        guard now >= searchAt else { return nil }
        searchAt = now + Self.searchInterval
        for _ in 0..<Self.searched {
            let index = Int.random(in: paths.indices)
            if paths[index].recentRequests(now: now) < Self.replaceableBelow { return index }
        }
        return nil
    }

    /// Ends the observation of paths with words after a template.
    private mutating func removeWords(after template: [UInt8]) {
        paths.removeAll { path in
            path.template.starts(with: template) && path.template.count > template.count
                && path.template[template.count] != UInt8(ascii: "*")
        }
        indexPaths()
    }

    /// nil if a word of the path is not known yet, or if the path can be read in several ways.
    private mutating func template(
        of path: ArraySlice<UInt8>, _ fetch: ObservedFetch, now: Int64, _ isCertain: inout Bool
    ) -> [UInt8]? {
        let slash = UInt8(ascii: "/")
        guard path.first == slash else { return nil }
        var template: [UInt8] = []
        template.reserveCapacity(path.count + 3)
        var end = path.startIndex
        var depth = 0
        while end < path.endIndex {
            defer { depth += 1 }
            let start = end + 1
            end = path[start...].firstIndex(of: slash) ?? path.endIndex
            let segment = path[start..<end]
            guard PathTemplate.isClear(segment, isLast: end == path.endIndex) else { return nil }
            template.append(slash)
            guard depth < PathTemplate.segmentLimit else { return template + Array("**".utf8) }
            guard !segment.isEmpty else { break }
            switch words.read(segment, after: template, fetch, now: now) {
            case .word: template += segment
            case .identifier: template.append(UInt8(ascii: "*"))
            case .candidate:
                isCertain = false
                template.append(UInt8(ascii: "*"))
            case .manyWords:
                removeWords(after: template)
                template.append(UInt8(ascii: "*"))
            case .unknown: return nil
            }
        }
        return template
    }
}

// Learns which words of paths name resources. A word counts once several requests have succeeded with it. Where a position has many
// different words in use, such as user names, they count as identifiers. Random words cannot push out the known ones.
struct PathWords {
    enum Reading {
        case word
        case identifier
        /// An identifier for now; the word may become known.
        case candidate
        /// An identifier; the former words at this position are identifiers from now on.
        case manyWords
        /// Too few requests had this word.
        case unknown
    }

    fileprivate struct Word {
        let hash: UInt64
        var count: UInt32
        var usedAt: Int64
    }

    fileprivate struct Position {
        var words: [Word] = []
        var usedAt: Int64
        /// Whether all words are identifiers.
        var hasManyWords = false
    }

    /// Number of successful requests after which a word is known.
    static let admission: UInt32 = 4
    /// Maximum number of different words at a position. With more in use, further words of the first segment, and all words of a later
    /// segment, are identifiers.
    static let wordLimit = 32
    static let positionLimit = 512
    /// Milliseconds after which an unused word, or an unused position, may be replaced.
    fileprivate static let idleLimit: Int64 = 7_200_000

    /// By the template before the position.
    private var positions: [[UInt8]: Position] = [:]

    /// - Parameter template: template before the segment.
    mutating func read(_ segment: ArraySlice<UInt8>, after template: [UInt8], _ fetch: ObservedFetch, now: Int64) -> Reading {
        if PathTemplate.isIdentifier(segment) { return .identifier }
        let hash = ContentHash.number(of: segment.span)
        if let index = positions.index(forKey: template) {
            return positions.values[index].read(hash, isFirst: template.count == 1, fetch, now: now)
        }
        guard fetch.showsPath else { return .unknown }
        if positions.count >= Self.positionLimit { positions = positions.filter { now - $0.value.usedAt <= Self.idleLimit } }
        if positions.count < Self.positionLimit {
            positions[template] = Position(words: [Word(hash: hash, count: 1, usedAt: now)], usedAt: now)
        }
        return .unknown
    }
}

extension PathWords.Position {
    fileprivate mutating func read(_ hash: UInt64, isFirst: Bool, _ fetch: ObservedFetch, now: Int64) -> PathWords.Reading {
        if fetch.showsPath { usedAt = now }
        guard !hasManyWords else { return .identifier }
        if let index = words.firstIndex(where: { $0.hash == hash }) {
            if fetch.showsPath {
                words[index].count = min(words[index].count + 1, PathWords.admission)
                words[index].usedAt = now
            }
            return words[index].count >= PathWords.admission ? .word : .unknown
        }
        let word = PathWords.Word(hash: hash, count: 1, usedAt: now)
        guard words.count >= PathWords.wordLimit else {
            if fetch.showsPath { words.append(word) }
            return .unknown
        }
        guard fetch.showsPath else { return .candidate }
        let replaceable = words.indices.filter { words[$0].count < PathWords.admission || now - words[$0].usedAt > PathWords.idleLimit }
        if let oldest = replaceable.min(by: { words[$0].usedAt < words[$1].usedAt }) {
            words[oldest] = word
            return .candidate
        }
        guard !isFirst else { return .identifier }
        (words, hasManyWords) = ([], true)
        return .manyWords
    }
}

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

    /// Number of remembered paths; a power of two.
    private static let remembered = 1_024
    /// A path with fewer fetches in the last two hours may be replaced.
    private static let replaceableBelow: UInt32 = 8
    /// Milliseconds between two searches for a replaceable path.
    private static let searchInterval: Int64 = 1_000

    public init(limit: Int) { self.limit = limit }

    /// Continues the observation of another one. The counters begin at 0.
    /// - Parameter route: returns the index of a former route now; nil if the route no longer exists.
    public init(limit: Int, after former: TrafficObservation, route: (UInt16) -> UInt16?) {
        self.limit = limit
        words = former.words
        for path in former.paths {
            guard paths.count < limit, let route = route(path.route) else { continue }
            indices[Self.hash(path.template[...], of: route)] = paths.count
            paths.append(ObservedPath(path, route: route))
        }
    }

    /// Number of observed paths.
    public var count: Int { paths.count }

    /// What was observed of a path since a time, in whole hours of the monotonic clock.
    /// - Returns: nil if there is no path with this index.
    public func summary(_ index: Int, since: Int64, now: Int64) -> ObservedSummary? {
        paths.indices.contains(index) ? paths[index].summary(since: since, now: now) : nil
    }

    /// - Parameter now: milliseconds of the monotonic clock.
    public mutating func note(_ fetch: ObservedFetch, _ message: ObservedMessage, now: Int64) {
        guard limit > 0 else { return }
        // The clocks of event loops differ by the time since their last events.
        latest = max(latest, now)
        let (now, path) = (latest, message.target.withoutQuery)
        let hash = Self.hash(path, of: fetch.route)
        if memo.isEmpty { memo = Array(repeating: (0, -1), count: Self.remembered) }
        let slot = Int(truncatingIfNeeded: hash) & (Self.remembered - 1)
        if memo[slot].hash == hash, memo[slot].path >= 0 { return paths[Int(memo[slot].path)].note(fetch, message, now: now) }
        guard let index = index(of: path, fetch, now: now) else { return }
        memo[slot] = (hash, Int32(index))
        paths[index].note(fetch, message, now: now)
    }

    private static func hash(_ path: ArraySlice<UInt8>, of route: UInt16) -> UInt64 {
        ContentHash.number(of: path.span, seed: UInt64(route))
    }

    private mutating func index(of path: ArraySlice<UInt8>, _ fetch: ObservedFetch, now: Int64) -> Int? {
        guard let template = template(of: path, fetch, now: now) else {
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
        for slot in memo.indices where memo[slot].path == Int32(index) { memo[slot] = (0, -1) }
        indices[Self.hash(paths[index].template[...], of: paths[index].route)] = nil
        indices[hash] = index
        paths[index] = new
        replaced &+= 1
        return index
    }

    /// Returns the path with the fewest fetches; nil if it is in use, so that many other paths cannot push it out.
    private mutating func replaceable(now: Int64) -> Int? {
        guard now >= searchAt else { return nil }
        let requests = paths.map { $0.recentRequests(now: now) }
        guard let least = requests.indices.min(by: { requests[$0] < requests[$1] }), requests[least] < Self.replaceableBelow else {
            searchAt = now + Self.searchInterval
            return nil
        }
        return least
    }

    /// nil if a word of the path is not known yet, or if the path can be read in several ways.
    private mutating func template(of path: ArraySlice<UInt8>, _ fetch: ObservedFetch, now: Int64) -> [UInt8]? {
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
            let (segment, parent) = (path[start..<end], Self.hash(template[...], of: fetch.route))
            guard PathTemplate.isClear(segment, isLast: end == path.endIndex) else { return nil }
            template.append(slash)
            guard depth < PathTemplate.segmentLimit else { return template + Array("**".utf8) }
            guard !segment.isEmpty else { break }
            switch words.read(segment, after: parent, mayLearn: fetch.showsPath, now: now) {
            case .word: template += segment
            case .identifier: template.append(UInt8(ascii: "*"))
            case .unknown: return nil
            }
        }
        return template
    }
}

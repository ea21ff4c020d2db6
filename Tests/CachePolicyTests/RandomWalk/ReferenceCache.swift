// A small, slow cache by RFC 9111, written for obvious correctness: fields are lists of texts, nothing is encoded, and every look-up is a
// search. It shares no code with the tested rules.

struct Line: Equatable {
    var name: String
    var value: String

    init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

struct WalkRequest {
    var method = "GET"
    var target: String
    var lines: [Line] = []
}

struct WalkResponse {
    var status: Int
    var lines: [Line]
    /// Times of request and response in seconds.
    var requestTime: Int
    var responseTime: Int
}

extension [Line] {
    func values(_ name: String) -> [String] { filter { $0.name == name }.map(\.value) }

    /// Arguments of a directive in all lines; an empty text for a directive without argument. Values contain no commas in the walk.
    func directive(_ name: String) -> [String] {
        values("cache-control").flatMap { $0.split(separator: ",") }.compactMap { member in
            let parts = member.split(separator: "=", maxSplits: 1)
            let word = parts[0].filter { $0 != " " }.lowercased()
            guard word == name else { return nil }
            return parts.count == 1 ? "" : String(parts[1])
        }
    }

    func has(_ name: String) -> Bool { !directive(name).isEmpty }

    /// §4.2.1: the minimum of several values; 0 for an invalid value.
    func seconds(_ name: String) -> Int? { directive(name).map { ReferenceCache.number($0) ?? 0 }.min() }
}

struct ReferenceCache {
    enum Decision: Equatable {
        case serve(ttl: Int, age: Int)
        case serveWhileValidating(ttl: Int, age: Int)
        case validate
        case nothing
    }

    struct Entry {
        var target: String
        var user: String
        /// The request's fields that Vary names.
        var selecting: [Line]
        var vary: [String]
        var answer: WalkResponse
        /// Whether it responded to a request with Authorization, and is shared (§3.5).
        var isAnothers: Bool
    }

    /// Whether credentials have separate partitions.
    let hasPartitions: Bool
    private(set) var entries: [Entry] = []

    init(hasPartitions: Bool) { self.hasPartitions = hasPartitions }

    private func user(_ request: WalkRequest) -> String {
        hasPartitions ? request.lines.values("authorization").joined(separator: ",") : ""
    }

    // MARK: §3

    func mayStore(_ request: WalkRequest, _ answer: WalkResponse) -> Bool {
        let lines = answer.lines
        let understood = [200, 201, 203, 204, 300, 301, 302, 307, 308, 400, 403, 404, 405, 410, 414, 500, 501].contains(answer.status)
        guard request.method == "GET", answer.status >= 200, answer.status != 206, answer.status != 304 else { return false }
        if lines.has("must-understand") {
            guard understood else { return false }
        } else if lines.has("no-store") {
            return false
        }
        guard !request.lines.has("no-store") else { return false }
        let isOnes = !user(request).isEmpty
        guard !lines.has("private") || isOnes else { return false }
        if !request.lines.values("authorization").isEmpty, !isOnes {
            guard lines.has("public") || lines.has("s-maxage") || lines.has("must-revalidate") else { return false }
        }
        guard !varies(lines).contains("*") else { return false }
        return lines.has("public") || lines.has("max-age") || lines.has("s-maxage") || !lines.values("expires").isEmpty
            || [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501].contains(answer.status)
    }

    private func varies(_ lines: [Line]) -> [String] {
        var names: [String] = []
        for name in lines.values("vary").flatMap({ $0.split(separator: ",") }).map({ $0.filter { $0 != " " }.lowercased() })
        where !names.contains(name) && !(hasPartitions && name == "authorization") {
            names.append(name)
        }
        return names.sorted()
    }

    mutating func store(_ request: WalkRequest, _ answer: WalkResponse) {
        let vary = varies(answer.lines)
        let user = user(request)
        let selecting = vary.flatMap { name in request.lines.values(name).map { Line(name, $0) } }
        // A response with another Vary replaces all; a variant replaces an equal variant.
        entries.removeAll { $0.target == request.target && $0.user == user && ($0.vary != vary || $0.selecting == selecting) }
        let isAnothers = user.isEmpty && !request.lines.values("authorization").isEmpty
        entries.append(Entry(target: request.target, user: user, selecting: selecting, vary: vary, answer: answer, isAnothers: isAnothers))
    }

    // MARK: §4

    private func index(_ request: WalkRequest) -> Int? {
        entries.firstIndex { entry in
            entry.target == request.target && entry.user == user(request)
                && entry.selecting == entry.vary.flatMap { name in request.lines.values(name).map { Line(name, $0) } }
        }
    }

    func found(_ request: WalkRequest) -> Entry? { index(request).map { entries[$0] } }

    /// Parses delta-seconds (§1.2.2); nil if invalid.
    static func number(_ text: String) -> Int? {
        var digits = text
        if digits.hasPrefix("\""), digits.hasSuffix("\""), digits.count > 1 { digits = String(digits.dropFirst().dropLast()) }
        guard !digits.isEmpty, digits.allSatisfy({ "0123456789".contains($0) }) else { return nil }
        return min(Int(digits) ?? .max, 2_147_483_648)
    }

    /// Current age (§4.2.3).
    static func age(_ answer: WalkResponse, _ now: Int) -> Int {
        let date = answer.lines.values("date").first.flatMap(Walk.seconds(of:)) ?? answer.responseTime
        let apparent = max(0, answer.responseTime - date)
        let value = answer.lines.values("age").first.flatMap(Int.init) ?? 0
        return max(apparent, value + answer.responseTime - answer.requestTime) + now - answer.responseTime
    }

    /// Freshness lifetime (§4.2.1). An invalid Age makes the response stale (§5.1).
    static func lifetime(_ answer: WalkResponse) -> Int? {
        let lines = answer.lines
        let date = lines.values("date").first.flatMap(Walk.seconds(of:)) ?? answer.responseTime
        let said: Int?
        if let shared = lines.seconds("s-maxage") {
            said = shared
        } else if let maximum = lines.seconds("max-age") {
            said = maximum
        } else if let expires = lines.values("expires").first {
            said = Walk.seconds(of: expires).map { max(0, $0 - date) } ?? 0
        } else {
            said = nil
        }
        guard let said else { return nil }
        return said
    }

    func decide(_ request: WalkRequest, _ now: Int) -> Decision {
        guard let entry = found(request) else { return .nothing }
        let answer = entry.answer
        let lines = answer.lines
        guard !lines.has("no-cache"), !request.lines.has("no-cache") else { return .validate }
        guard let lifetime = Self.lifetime(answer) ?? (request.lines.has("max-stale") ? 0 : nil) else { return .validate }
        let age = Self.age(answer, now)
        let ttl = lifetime - age
        if let limit = request.lines.seconds("max-age"), age > limit { return .validate }
        let wanted = request.lines.directive("min-fresh").map { Self.number($0) ?? 2_147_483_648 }.max()
        if let wanted, ttl < wanted { return .validate }
        if lifetime > age { return .serve(ttl: ttl, age: age) }
        guard !lines.has("must-revalidate"), !lines.has("proxy-revalidate"), !lines.has("s-maxage") else { return .validate }
        let staleness = request.lines.directive("max-stale").map { $0.isEmpty ? Int.max : Self.number($0) ?? 0 }.min()
        if let staleness, -ttl <= staleness { return .serve(ttl: ttl, age: age) }
        if request.lines.seconds("max-age") == nil, wanted == nil, let window = lines.seconds("stale-while-revalidate"), -ttl <= window {
            return .serveWhileValidating(ttl: ttl, age: age)
        }
        return .validate
    }

    /// Whether the stored response may be used while the upstream fails (§4.2.4, §4.3.3, RFC 5861 §4).
    func mayStandIn(_ request: WalkRequest, _ now: Int) -> Bool {
        guard let entry = found(request) else { return false }
        let lines = entry.answer.lines
        let lifetime = Self.lifetime(entry.answer)
        let staleness = lifetime.map { Self.age(entry.answer, now) - $0 }
        let isFresh = staleness.map { $0 < 0 } ?? false
        if !isFresh, entry.answer.status >= 500 || (entry.isAnothers && !lines.has("public")) { return false }
        for directive in ["no-cache", "must-revalidate", "proxy-revalidate", "s-maxage"] where lines.has(directive) { return false }
        if request.lines.has("no-cache") { return false }
        guard let limit = request.lines.seconds("stale-if-error") ?? lines.seconds("stale-if-error") else { return true }
        return staleness ?? Self.age(entry.answer, now) <= limit
    }

    // MARK: §4.3.4, §4.4

    mutating func freshen(_ request: WalkRequest, _ answer: WalkResponse) {
        guard let index = index(request) else { return }
        var lines = entries[index].answer.lines.filter { old in !answer.lines.contains { $0.name == old.name } }
        lines += answer.lines
        // Age and Date of the old response are dropped if the 304 lacks them.
        lines.removeAll { ($0.name == "age" || $0.name == "date") && answer.lines.values($0.name).isEmpty }
        entries[index].answer = WalkResponse(
            status: entries[index].answer.status, lines: lines, requestTime: answer.requestTime, responseTime: answer.responseTime)
    }

    mutating func invalidate(_ request: WalkRequest, _ status: Int) {
        guard !["GET", "HEAD", "OPTIONS"].contains(request.method), (200..<400).contains(status) else { return }
        entries.removeAll { $0.target == request.target }
    }
}

// Selects the recorded response for a request. A state machine without I/O: it holds the requests and their order; its caller holds the
// responses.

import HTTPCore

/// Order in which recorded responses are served.
public enum ReplayOrder: Sendable, Equatable {
    /// Responses to one request are served in the order of the recording. The last one is repeated.
    case repeating
    /// As `repeating`, but each response is served once.
    case once
    /// Requests must arrive in the recorded order, each once. Preflights may arrive at any time.
    case strict
}

/// Result for a request.
public enum ReplayDecision: Equatable, Sendable {
    /// The index of the recorded response to serve.
    case serve(Int)
    case refuse(ReplayRefusal)
}

public enum ReplayRefusal: Equatable, Sendable {
    /// The method and target were recorded, but with other content. The most similar requests come first.
    case otherContent(nearest: [Int])
    /// The request was recorded, but with other values of the fields that `Vary` names.
    case otherVariant(nearest: [Int])
    case notRecorded(nearest: [Int])
    /// All recorded responses to this request have been served.
    case usedUp(count: Int)
    /// Another recorded request must arrive first.
    case outOfOrder(next: Int)
    /// All recorded requests have been served.
    case atEnd
}

public struct Replay: Sendable {
    private var requests: [ReplayRequest] = []
    private let order: ReplayOrder
    private let needsVariant: Bool
    private var groups: [ReplayRequest.Key: [Variant]] = [:]
    /// The first request of each key, in the order of the recording.
    private var distinct: [Int] = []
    /// Recorded methods and targets, regardless of content.
    private var targets: Set<MethodAndTarget> = []
    /// Index of the next request in strict order.
    private var next = 0
    public private(set) var served = 0
    public private(set) var refused = 0
    /// Number of exchanges that were added during the replay.
    public private(set) var captured = 0
    private var isServed: [Bool] = []
    /// Requests without a recorded response.
    private(set) var missed = MissedRequests()

    /// Recorded responses to one request with equal values of the fields that `Vary` names, and all with or all without credentials.
    private struct Variant: Sendable {
        let hasCredentials: Bool
        let selecting: [Selecting]
        var numbers: [Int]
        var next = 0
    }

    private struct MethodAndTarget: Hashable, Sendable {
        let method: [UInt8]
        let target: [UInt8]

        init(_ key: ReplayRequest.Key) { (method, target) = (key.method, key.target) }
    }

    private struct Selecting: Equatable, Sendable {
        let name: [UInt8]
        let values: [[UInt8]]
    }

    /// - Parameters:
    ///   - recorded: requests with the fields of their responses.
    ///   - needsVariant: whether requests are refused that have other values of the fields that `Vary` names.
    public init(_ recorded: [(request: ReplayRequest, response: Fields)], order: ReplayOrder, needsVariant: Bool = false) {
        (self.order, self.needsVariant) = (order, needsVariant)
        for one in recorded { append(one.request, response: one.response, isServed: false) }
    }

    /// Adds an exchange that was captured and served.
    /// - Parameter response: fields of the response.
    public mutating func add(_ request: ReplayRequest, response: Fields) {
        append(request, response: response, isServed: true)
        captured += 1
    }

    private mutating func append(_ request: ReplayRequest, response: Fields, isServed: Bool) {
        let number = requests.count
        requests.append(request)
        self.isServed.append(isServed)
        targets.insert(MethodAndTarget(request.key))
        if groups[request.key] == nil { distinct.append(number) }
        let variant = Variant(
            hasCredentials: request.hasCredentials, selecting: Self.selecting(request.fields, vary: response), numbers: [number])
        let index = groups[request.key, default: []].firstIndex {
            $0.hasCredentials == variant.hasCredentials && $0.selecting == variant.selecting
        }
        if let index {
            groups[request.key]?[index].numbers.append(number)
        } else {
            groups[request.key, default: []].append(variant)
        }
    }

    public var count: Int { requests.count }
    /// Recorded responses that have not been served, except preflights.
    public var unused: [Int] { isServed.indices.filter { !isServed[$0] && !requests[$0].isPreflight } }
    public func request(_ number: Int) -> ReplayRequest { requests[number] }

    public mutating func respond(to request: ReplayRequest) -> ReplayDecision {
        let decision = serveIfRecorded(request)
        if case .refuse(let refusal) = decision { note(refusal, of: request, difference(refusal, request)) }
        return decision
    }

    /// As `respond`, but counts no refusal, because there may be another response.
    public mutating func serveIfRecorded(_ request: ReplayRequest) -> ReplayDecision {
        let decision = order == .strict && !request.isPreflight ? inOrder(request) : choose(request)
        if case .serve(let number) = decision {
            served += 1
            isServed[number] = true
        }
        return decision
    }

    /// The difference from the most similar recorded request; nil if there is none.
    public func difference(_ refusal: ReplayRefusal, _ request: ReplayRequest) -> ReplayDifference? {
        refusal.nearest.first.map { ReplayDifference(request, requests[$0]) }
    }

    /// Counts a refusal.
    /// - Parameters:
    ///   - difference: result of `difference`.
    ///   - reason: why the response was not captured; nil if the request was not forwarded.
    public mutating func note(
        _ refusal: ReplayRefusal, of request: ReplayRequest, _ difference: ReplayDifference?, notCaptured reason: String? = nil
    ) {
        refused += 1
        let nearest = refusal.nearest.first.map { requests[$0] }
        missed.note(request, refusal.name, nearest: nearest, difference, notCaptured: reason)
    }

    // MARK: In strict order

    private mutating func inOrder(_ request: ReplayRequest) -> ReplayDecision {
        while next < requests.count, requests[next].isPreflight { next += 1 }
        guard next < requests.count else { return .refuse(.atEnd) }
        guard [request.key, request.key.withAnyContent].contains(requests[next].key) else { return .refuse(.outOfOrder(next: next)) }
        next += 1
        return .serve(next - 1)
    }

    // MARK: In any order

    private mutating func choose(_ request: ReplayRequest) -> ReplayDecision {
        guard let key = recordedKey(for: request), let variants = groups[key] else { return .refuse(unknown(request)) }
        guard let index = fitting(variants, request) else {
            return .refuse(.otherVariant(nearest: variants.prefix(Self.nearestCount).map { $0.numbers[0] }))
        }
        let variant = variants[index]
        // In strict order, only preflights reach this point. Browsers decide how often to repeat them.
        guard variant.next < variant.numbers.count || order != .once else {
            return .refuse(.usedUp(count: variant.numbers.count))
        }
        groups[key]?[index].next += 1
        return .serve(variant.numbers[min(variant.next, variant.numbers.count - 1)])
    }

    /// The recorded key that fits. A server may ignore Range (RFC 9110 §14.2), and HEAD gets the head of GET's response (§9.3.2).
    private func recordedKey(for request: ReplayRequest) -> ReplayRequest.Key? {
        var keys = [request.key, request.key.with(range: [])]
        if request.key.method == Array("HEAD".utf8) { keys += keys.map { $0.with(method: Array("GET".utf8)) } }
        return keys.first { groups[$0] != nil } ?? keys.map(\.withAnyContent).first { groups[$0] != nil }
    }

    /// Prefers variants with credentials if the request has them, without if not; then variants with matching selecting fields. If none
    /// fits, returns any variant, or nil with `needsVariant`.
    private func fitting(_ variants: [Variant], _ request: ReplayRequest) -> Int? {
        let alike = variants.indices.filter { variants[$0].hasCredentials == request.hasCredentials }
        let candidates = alike.isEmpty ? Array(variants.indices) : alike
        let selected = candidates.first { index in
            variants[index].selecting.allSatisfy { $0.values == Self.values(of: $0.name, in: request.fields) }
        }
        return selected ?? (needsVariant ? nil : candidates[0])
    }

    private static func selecting(_ request: Fields, vary response: Fields) -> [Selecting] {
        let names = FieldLists.members(of: .vary, in: response, limit: FieldListLimit.members).map { $0.map(\.asciiLowercased) }
        // Content codings are not part of a recording, and credentials are placeholders.
        let skipped = ["*", "accept-encoding", "authorization", "cookie"].map { Array($0.utf8) }
        return names.filter { !skipped.contains($0) }.map { Selecting(name: $0, values: values(of: $0, in: request)) }
    }

    private static func values(of name: [UInt8], in fields: Fields) -> [[UInt8]] { fields.all(named: name.span).map { Array($0) } }

    // MARK: Similar requests

    /// Number of similar requests that are reported.
    private static let nearestCount = 3
    /// Maximum number of compared requests, and of bytes. They limit the search to less than a millisecond, so that it does not block the
    /// event loop.
    private static let lookedAtLimit = 5_000
    private static let comparedBytesLimit = 512 << 10

    private func unknown(_ request: ReplayRequest) -> ReplayRefusal {
        var best: [(likeness: Int, number: Int)] = []
        var left = Self.comparedBytesLimit
        for number in distinct.prefix(Self.lookedAtLimit) {
            let likeness = Likeness.of(request, requests[number], &left)
            guard left > 0 else { break }
            guard best.count < Self.nearestCount || likeness > best[best.count - 1].likeness else { continue }
            // Of equally similar requests, the one recorded first comes first.
            let index = best.firstIndex { $0.likeness < likeness } ?? best.count
            best.insert((likeness, number), at: index)
            if best.count > Self.nearestCount { best.removeLast() }
        }
        let nearest = best.map(\.number)
        return targets.contains(MethodAndTarget(request.key)) ? .otherContent(nearest: nearest) : .notRecorded(nearest: nearest)
    }
}

/// Similarity of two requests, by common prefixes and suffixes. Cheap, because a request is compared with many recorded ones.
enum Likeness {
    /// - Parameter left: number of bytes that may still be compared.
    static func of(_ one: ReplayRequest, _ other: ReplayRequest, _ left: inout Int) -> Int {
        let path = share(one.target.span.extracting(0..<one.pathBytes), other.target.span.extracting(0..<other.pathBytes), &left)
        let query = share(one.target.span.extracting(one.pathBytes...), other.target.span.extracting(other.pathBytes...), &left)
        return 4 * path + query + (one.method == other.method ? 60 : 0)
    }

    /// Common prefix and suffix, in percent of the longer text.
    private static func share(_ one: Span<UInt8>, _ other: Span<UInt8>, _ left: inout Int) -> Int {
        let (longest, shortest) = (max(one.count, other.count), min(one.count, other.count))
        guard longest > 0 else { return 100 }
        var start = 0
        while start < min(shortest, left), one[start] == other[start] { start += 1 }
        left -= start
        var end = 0
        while end < min(shortest - start, left), one[one.count - 1 - end] == other[other.count - 1 - end] { end += 1 }
        left -= end
        return (start + end) * 100 / longest
    }
}

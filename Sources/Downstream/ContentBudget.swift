// How much of requests' content is held in memory before anything is asked for it, over all shards. `ContentRules` decides and is pure;
// `ContentBudget` counts; a `ContentHold` is one request's part, given back when nobody holds it any more, however the request ends.

import Locking

/// What is done with a request's content.
public enum ContentTaking: Equatable, Sendable {
    /// It is held until it is whole.
    case whole
    /// It is passed on as it comes.
    case streamed(StreamingReason)
}

/// Why content is not taken whole.
public enum StreamingReason: Sendable {
    /// It is longer than one request may hold.
    case tooLong
    /// Others hold so much that there is no room for more of it.
    case noRoom
}

public struct ContentRules: Sendable {
    /// What one request may hold; 0: everything streams.
    public var eachBytes: Int
    /// What all of them may hold.
    public var totalBytes: Int

    public init(eachBytes: Int, totalBytes: Int) {
        self.eachBytes = eachBytes
        self.totalBytes = totalBytes
    }

    init(_ settings: DownstreamSettings) {
        self.init(eachBytes: settings.requestBufferBytes, totalBytes: settings.requestBuffersBytes)
    }

    /// Once the head is there.
    /// - Parameters:
    ///   - announced: what Content-Length says.
    ///   - limit: what this request may hold.
    public func decide(announced: Int?, limit: Int) -> ContentTaking {
        announced ?? 1 <= limit ? .whole : .streamed(.tooLong)
    }

    /// When more of it has come. As long as a quarter of the total is free each may hold all that it may; from then on less and less, so
    /// that there always is room for a small request, however many slow ones there are. What a route allows beyond `eachBytes` is held
    /// only while half of the total is free.
    /// - Parameters:
    ///   - held: what this request would hold.
    ///   - used: what all of them would hold.
    public func decide(held: Int, used: Int, limit: Int) -> ContentTaking {
        guard held <= limit else { return .streamed(.tooLong) }
        let left = totalBytes - used
        guard left >= 0 else { return .streamed(.noRoom) }
        if held > eachBytes { return left >= totalBytes / 2 ? .whole : .streamed(.noRoom) }
        guard left < totalBytes / 4 else { return .whole }
        return Double(held) <= Double(eachBytes) * 4 * Double(left) / Double(totalBytes) ? .whole : .streamed(.noRoom)
    }
}

public final class ContentBudget: Sendable {
    /// With the bytes held by all shards' requests.
    private let state: Mutex<(rules: ContentRules, heldBytes: Int)>

    public init(_ settings: DownstreamSettings) { state = Mutex((ContentRules(settings), 0)) }

    /// From now on these are the limits.
    public func use(_ settings: DownstreamSettings) { state.withLock { $0.rules = ContentRules(settings) } }

    public var rules: ContentRules { state.withLock { $0.rules } }
    public var heldBytes: Int { state.withLock { $0.heldBytes } }

    fileprivate func take(_ count: Int, holding: Int, limit: Int) -> ContentTaking {
        state.withLock { state in
            let taking = state.rules.decide(held: holding + count, used: state.heldBytes + count, limit: limit)
            if taking == .whole { state.heldBytes += count }
            return taking
        }
    }

    fileprivate func giveBack(_ count: Int) { state.withLock { $0.heldBytes -= count } }
}

/// Belongs to one loop.
public final class ContentHold {
    private let budget: ContentBudget
    private let limit: Int
    public private(set) var bytes = 0

    /// - Parameter limit: what the request may hold.
    public init(_ budget: ContentBudget, limit: Int) {
        self.budget = budget
        self.limit = limit
    }

    deinit { giveBack() }

    /// So many more bytes have come. Where they cannot be taken, what is held stays held.
    public func take(_ count: Int) -> ContentTaking {
        let taking = budget.take(count, holding: bytes, limit: limit)
        if taking == .whole { bytes += count }
        return taking
    }

    /// Nothing is held any more.
    public func giveBack() {
        guard bytes > 0 else { return }
        budget.giveBack(bytes)
        bytes = 0
    }
}

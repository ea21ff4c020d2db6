// Limits the process-wide memory of request content that is buffered before the fetch. `ContentRules` decides and is pure; `ContentBudget`
// counts. `ContentHold` is the reservation of one request, which ends on deinitialization.

import Reactor

/// How a request's content is handled.
public enum ContentTaking: Equatable, Sendable {
    /// The content is buffered until it is complete.
    case whole
    /// The content is forwarded while it arrives.
    case streamed(StreamingReason)
}

/// Why content is not buffered.
public enum StreamingReason: Sendable {
    /// The content is longer than the limit for one request.
    case tooLong
    /// The process-wide limit leaves no memory for it.
    case noCapacity
}

public struct ContentRules: Sendable {
    /// Maximum bytes for one request; 0 streams all content.
    public var eachBytes: Int
    /// Maximum bytes for all requests.
    public var totalBytes: Int

    public init(eachBytes: Int, totalBytes: Int) {
        self.eachBytes = eachBytes
        self.totalBytes = totalBytes
    }

    init(_ settings: DownstreamSettings) {
        self.init(eachBytes: settings.requestBufferBytes, totalBytes: settings.requestBuffersBytes)
    }

    /// Decides when the head has been received.
    /// - Parameters:
    ///   - announced: value of Content-Length; nil if unknown.
    ///   - limit: maximum bytes for this request.
    public func decide(announced: Int?, limit: Int) -> ContentTaking {
        announced ?? 1 <= limit ? .whole : .streamed(.tooLong)
    }

    /// Decides when more content has been received. While a quarter of the total is free, each request may use its limit. Below that the
    /// limit shrinks with the free memory, so that small requests always fit. A larger limit of a route applies only while half of the
    /// total is free.
    /// - Parameters:
    ///   - held: bytes that this request would hold.
    ///   - used: bytes that all requests would hold.
    ///   - limit: maximum bytes for this request.
    public func decide(held: Int, used: Int, limit: Int) -> ContentTaking {
        guard held <= limit else { return .streamed(.tooLong) }
        let left = totalBytes - used
        guard left >= 0 else { return .streamed(.noCapacity) }
        if held > eachBytes { return left >= totalBytes / 2 ? .whole : .streamed(.noCapacity) }
        guard left < totalBytes / 4 else { return .whole }
        return Double(held) <= Double(eachBytes) * 4 * Double(left) / Double(totalBytes) ? .whole : .streamed(.noCapacity)
    }
}

public final class ContentBudget: Sendable {
    /// The limits, and the bytes held by the requests of all shards.
    private let state: Mutex<(rules: ContentRules, heldBytes: Int)>

    public init(_ settings: DownstreamSettings) { state = Mutex((ContentRules(settings), 0)) }

    /// Applies new limits.
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

/// The reservation of one request. Belongs to one event loop.
public final class ContentHold {
    private let budget: ContentBudget
    private let limit: Int
    public private(set) var bytes = 0

    /// - Parameter limit: maximum bytes for the request.
    public init(_ budget: ContentBudget, limit: Int) {
        self.budget = budget
        self.limit = limit
    }

    deinit { giveBack() }

    /// Reserves memory for more bytes. If that fails, the bytes reserved before stay reserved.
    public func take(_ count: Int) -> ContentTaking {
        let taking = budget.take(count, holding: bytes, limit: limit)
        if taking == .whole { bytes += count }
        return taking
    }

    /// Releases all reserved bytes.
    public func giveBack() {
        guard bytes > 0 else { return }
        budget.giveBack(bytes)
        bytes = 0
    }
}

// State machine of a response with an injected fault: receives the events of the real response and returns what to pass on. It has no
// clock; it returns wait times instead.

public struct FaultyResponse: Sendable {
    public enum Event: Sendable {
        case headCame(contentLength: Int?)
        case contentCame(bytes: Int)
        case ended
        /// The wait has ended.
        case waitOver
    }

    public enum Action: Sendable, Equatable {
        case passOn
        /// Hold the received part until the wait has ended.
        case hold
        /// Hold the received part, and wait for this many milliseconds.
        case holdFor(milliseconds: Int64)
        /// Process the held parts as if they arrived now.
        case release
        /// Pass on the held parts without processing them again.
        case passOnHeld
        /// Pass on this many bytes of the received content, then break the connection.
        case breakAfter(bytes: Int)
    }

    private enum State: Sendable {
        /// Nothing may be passed on yet.
        case delayed
        case open
        /// Content is held to limit its rate.
        case pacing
        /// The connection is broken.
        case over
    }

    private let effect: InjectedFault.Effect
    private var state: State
    /// Number of bytes of content before the connection breaks; nil if it does not.
    private var bytesLeft: Int?

    /// Number of bytes that are passed on before the break if the length is unknown.
    private static let cutBytes = 64

    public init(_ effect: InjectedFault.Effect, isDelayed: Bool) {
        self.effect = effect
        state = isDelayed ? .delayed : .open
    }

    public mutating func handle(_ event: Event) -> Action {
        if case .waitOver = event {
            defer { state = .open }
            return state == .pacing ? .passOnHeld : .release
        }
        guard state == .open else { return .hold }
        switch event {
        case .headCame(let length):
            if effect == .cut { bytesLeft = length.map { $0 / 2 } ?? Self.cutBytes }
            return .passOn
        case .contentCame(let bytes): return content(bytes)
        // The content was shorter than the position where the connection should break.
        case .ended: return bytesLeft == nil ? .passOn : .breakAfter(bytes: 0)
        case .waitOver: return .release
        }
    }

    private mutating func content(_ bytes: Int) -> Action {
        if let left = bytesLeft {
            guard bytes < left else {
                state = .over
                return .breakAfter(bytes: left)
            }
            bytesLeft = left - bytes
            return .passOn
        }
        guard case .slow(let rate) = effect else { return .passOn }
        state = .pacing
        return .holdFor(milliseconds: Int64(bytes) * 1_000 / Int64(max(1, rate)))
    }
}

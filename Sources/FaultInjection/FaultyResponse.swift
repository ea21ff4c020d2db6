// What comes of a response under a fault, as a machine: what the upstream brings goes in, and what is passed on comes out. It knows no clock: it says
// for how long to wait.

public struct FaultyResponse: Sendable {
    public enum Event: Sendable {
        case headCame(contentLength: Int?)
        case contentCame(bytes: Int)
        case ended
        /// What was waited for is over.
        case waitOver
    }

    public enum Action: Sendable, Equatable {
        case passOn
        /// Hold what came, until the wait is over.
        case hold
        /// The same, and let that wait begin: so many milliseconds.
        case holdFor(milliseconds: Int64)
        /// Take what is held as if it came now.
        case release
        /// Pass on what is held: it has had its time.
        case passOnHeld
        /// Pass on so many bytes of the content that came; then the connection breaks.
        case breakAfter(bytes: Int)
    }

    private enum State: Sendable {
        /// Nothing is to be seen of it.
        case delayed
        case open
        /// Content has come that takes its time.
        case pacing
        /// The connection has broken.
        case over
    }

    private let effect: InjectedFault.Effect
    private var state: State
    /// Of content, until the connection breaks; nil where it does not.
    private var bytesLeft: Int?

    /// So much is passed on of content of a length that nobody knows.
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
        // There was less than it was to break after.
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

// What comes of a response under a fault, as a machine: what the upstream brings goes in, and what is passed on comes out. It knows no clock: it says
// for how long to wait.

package struct FaultyResponse: Sendable {
    package enum Event: Sendable {
        case headCame(contentLength: Int?)
        case contentCame(bytes: Int)
        case ended
        /// What was waited for is over.
        case waitOver
    }

    package enum Action: Sendable, Equatable {
        case passOn
        /// Hold what came, and have no more of it come until the wait is over.
        case hold
        /// Pass on what is held, and let more come.
        case release
        /// Pass on so many bytes of the content that came; then the connection breaks.
        case breakAfter(bytes: Int)
        /// Pass on what came; let no more come for so many milliseconds.
        case passOnAndWait(milliseconds: Int64)
    }

    private let effect: InjectedFault.Effect
    private var isDelayed: Bool
    /// Of content, until the connection breaks; nil where it does not.
    private var bytesLeft: Int?

    /// So much is passed on of content of a length that nobody knows.
    private static let cutBytes = 64

    package init(_ effect: InjectedFault.Effect, isDelayed: Bool) {
        self.effect = effect
        self.isDelayed = isDelayed
    }

    package mutating func handle(_ event: Event) -> Action {
        switch event {
        case .headCame(let length):
            if effect == .cut { bytesLeft = length.map { $0 / 2 } ?? Self.cutBytes }
            return isDelayed ? .hold : .passOn
        case .contentCame(let bytes): return content(bytes)
        // There was less than it was to break after.
        case .ended: return isDelayed ? .hold : bytesLeft == nil ? .passOn : .breakAfter(bytes: 0)
        case .waitOver:
            isDelayed = false
            return .release
        }
    }

    private mutating func content(_ bytes: Int) -> Action {
        if let left = bytesLeft {
            guard bytes < left else { return .breakAfter(bytes: left) }
            bytesLeft = left - bytes
            return .passOn
        }
        guard case .slow(let rate) = effect else { return .passOn }
        return .passOnAndWait(milliseconds: Int64(bytes) * 1_000 / Int64(max(1, rate)))
    }
}

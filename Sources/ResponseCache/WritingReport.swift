// Log messages about the store's disk, and the reason why responses were not stored in a period.

import CacheStore

public struct WritingReport: Sendable, Equatable {
    public enum Level: Sendable {
        case notice, warning, error
    }

    public let level: Level
    public let text: String

    init(_ event: WritingEvent, directory: String, limitBytes: Int) {
        switch event {
        case .failing(let fault, let seconds):
            level = .error
            let since = seconds > 0 ? " for \(seconds) s" : ""
            text =
                "cannot write to the cache directory \(directory)\(since): \(fault.text); new responses are forwarded and not stored; "
                + fault.cause.advice
        case .recovered(let fault, let seconds):
            level = .notice
            text =
                "the cache directory \(directory) is writable again after \(seconds) s (\(fault.systemText)): new responses are stored"
        case .limited(let usableBytes):
            level = .warning
            text =
                "the disk of the cache directory \(directory) has space for only \(Self.mebibytes(usableBytes)) of the "
                + "\(Self.mebibytes(limitBytes)) of store.size: older responses are evicted earlier; free disk space or reduce store.size"
        }
    }

    /// Warning for `check` and `serve`; nil if the disk has space for the configured size.
    public static func shortage(at directory: String, limitBytes: Int) -> String? {
        guard !directory.isEmpty, let available = DirectoryState.availableBytes(at: directory), available < limitBytes else { return nil }
        return
            "store.size: \(mebibytes(limitBytes)) exceeds the space on the disk of \(directory): \(mebibytes(available)), including what "
            + "the store "
            + "occupies now; older responses are evicted when the disk is full; free disk space or reduce store.size"
    }

    static func mebibytes(_ bytes: Int) -> String {
        let tenths = (bytes * 10) >> 20
        return tenths < 100 && tenths % 10 > 0 ? "\(tenths / 10).\(tenths % 10) MiB" : "\(tenths / 10) MiB"
    }
}

/// Why the store accepted no new responses, as text.
public struct StoreRefusal: Sendable, Equatable {
    /// Cause such as `its disk is full`.
    public let words: String
    /// The operating system's error text.
    public let systemText: String
    /// Path of the file that could not be written.
    public let path: String
    /// Advice for the operator.
    public let advice: String

    init(_ fault: WriteFault) {
        (words, systemText, path, advice) = (fault.cause.words, fault.systemText, fault.path, fault.cause.advice)
    }
}

extension ResponseCache {
    /// Text that follows "The cache directory cannot be written to".
    public var refusalWords: String { store.statistics.refusal.map { ": \($0.text)" } ?? "" }
}

extension APICacheState {
    /// Reason for which the store accepted no new responses in this period; nil if it accepted them.
    /// - Parameter time: milliseconds of the wall clock.
    public func refusal(in time: ClosedRange<Int64>) -> StoreRefusal? { store.statistics.refusal(in: time).map { StoreRefusal($0) } }
}

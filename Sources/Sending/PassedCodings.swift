// Gzip compression of responses that are passed on while they arrive. The client can decode each piece at once.

import ContentCodings
import Figures
import HTTPCore

/// The compressions of one shard. Used on its loop only.
public final class PassedCodings {
    private var running = 0
    private var begun = 0
    private var refused = 0

    /// Maximum number of concurrent compressions, which need 256 KiB each. Further responses are not compressed.
    private static let limit = 64

    public init() {}

    /// Starts a compression; nil if the limit is reached or memory is exhausted.
    public func begin() -> PassedCoding? {
        guard running < Self.limit, let coding = PassedCoding(self) else {
            refused += 1
            return nil
        }
        running += 1
        begun += 1
        return coding
    }

    fileprivate func end() { running -= 1 }

    public func addFigures(to figures: inout Figures) {
        figures[.compressing] += running
        figures[.compressedPassed] += begun
        figures[.compressionRefused] += refused
    }
}

/// The compression of one response. Counts as running until it is released.
public final class PassedCoding {
    private let all: PassedCodings
    private let encoder = GzipEncoder()
    private var bytes = 0
    private var isTrying = true

    /// Number of bytes after which a response counts as a download. The rest is not compressed, so that the loop has time for other
    /// clients.
    private static let triedBytes = 8 << 20

    fileprivate init?(_ all: PassedCodings) {
        guard encoder.begin() else { return nil }
        self.all = all
    }

    deinit { all.end() }

    public func code(_ piece: Span<UInt8>) -> [UInt8] {
        bytes += piece.count
        let coded = piece.withUnsafeBytes { encoder.code($0, isLast: false) }
        guard isTrying, bytes > Self.triedBytes else { return coded }
        isTrying = false
        return coded + encoder.stopTrying()
    }

    public func end() -> [UInt8] { encoder.code(UnsafeRawBufferPointer(start: nil, count: 0), isLast: true) }
}

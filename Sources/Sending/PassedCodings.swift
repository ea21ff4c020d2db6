// Gzip on what is passed on as it comes: each piece so that the client can read all of it.

import ContentCodings
import Figures
import HTTPCore

/// All of one shard. Touched on its loop only.
public final class PassedCodings {
    private var running = 0
    private var begun = 0
    private var refused = 0

    /// Each takes 256 KiB of memory: beyond so many, responses go out as they come.
    private static let limit = 64

    public init() {}

    /// nil where there are too many.
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

/// Of one response. It counts until it is let go of.
public final class PassedCoding {
    private let all: PassedCodings
    private let encoder = GzipEncoder()
    private var bytes = 0
    private var isTrying = true

    /// What is longer than anybody would hold is a download: then the loop is there for the others, and the rest goes out as it is.
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

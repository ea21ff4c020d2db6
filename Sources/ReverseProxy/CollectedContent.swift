// The content of a response that is taken whole, while it comes.

import HTTPCore
import JSON

struct CollectedContent {
    private(set) var bytes: [UInt8] = []
    private var checker = JSONTextChecker()
    /// JSON without a content coding is checked piece by piece, so that a large response holds nobody up at its end.
    private var checksAsItComes = false

    /// - Parameters:
    ///   - length: nil where nobody knows.
    ///   - isJSON: and without a coding.
    mutating func begin(length: Int?, isJSON: Bool) {
        if let length { bytes.reserveCapacity(length) }
        checksAsItComes = isJSON
    }

    /// - Parameter limit: the most that there may be.
    mutating func append(_ piece: Span<UInt8>, limit: Int) {
        bytes.append(copying: piece, growingTo: limit)
        if checksAsItComes { _ = checker.consume(piece) }
    }

    mutating func removeAll() { bytes = [] }

    /// Of JSON that was checked as it came.
    mutating func verdict() -> JSONVerdict { checker.finish() }
}

// The content of a response that is taken whole, while it comes, and what was found out about it.

import HTTPCore
import JSON

public struct CollectedContent {
    public private(set) var bytes: [UInt8] = []
    /// What there was to find out about it, once it has been looked at.
    public var findings = ContentExamination.Findings()
    private var checker = JSONTextChecker()
    /// JSON without a content coding is checked piece by piece, so that a large response holds nobody up at its end.
    private var checksAsItComes = false

    public init() {}

    /// - Parameter reading: what is taken beyond RFC 8259.
    public init(_ reading: JSONReading) { checker = JSONTextChecker(reading) }

    /// - Parameters:
    ///   - length: nil where nobody knows.
    ///   - isJSON: and without a coding.
    public mutating func begin(length: Int?, isJSON: Bool) {
        if let length { bytes.reserveCapacity(length) }
        checksAsItComes = isJSON
    }

    /// - Parameter limit: the most that there may be.
    public mutating func append(_ piece: Span<UInt8>, limit: Int) {
        bytes.append(copying: piece, growingTo: limit)
        if checksAsItComes { _ = checker.consume(piece) }
    }

    public mutating func removeAll() { bytes = [] }

    /// Of JSON that was checked as it came.
    public mutating func verdict() -> JSONVerdict { checker.finish() }
}

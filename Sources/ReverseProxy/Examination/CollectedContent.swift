// Collects the content of a response that is read whole, and holds the findings about it.

import HTTPCore
import JSON

public struct CollectedContent {
    public private(set) var bytes: [UInt8] = []
    /// Result of the examination, once it has ended.
    public var findings = ContentExamination.Findings()
    private var checker = JSONTextChecker()
    /// JSON without a content coding is checked piece by piece, so that the end of a large response does not block the loop.
    private var checksAsItComes = false
    private var isCheckedAtEnd = false

    public init() {}

    /// - Parameter reading: which JSON beyond RFC 8259 is accepted.
    public init(_ reading: JSONReading) { checker = JSONTextChecker(reading) }

    /// - Parameters:
    ///   - length: announced length in bytes; nil if unknown.
    ///   - isJSON: whether the content is JSON without a coding.
    ///   - isCheckedAtEnd: whether the check waits for `verdict`, because it is probably not needed.
    public mutating func begin(length: Int?, isJSON: Bool, isCheckedAtEnd: Bool = false) {
        if let length { bytes.reserveCapacity(length) }
        (checksAsItComes, self.isCheckedAtEnd) = (isJSON && !isCheckedAtEnd, isJSON && isCheckedAtEnd)
    }

    /// - Parameter limit: maximum length of the whole content, in bytes.
    public mutating func append(_ piece: Span<UInt8>, limit: Int) {
        bytes.append(copying: piece, growingTo: limit)
        if checksAsItComes { _ = checker.consume(piece) }
    }

    public mutating func removeAll() { bytes = [] }

    /// Verdict on JSON without a content coding.
    public mutating func verdict() -> JSONVerdict {
        if isCheckedAtEnd {
            let bytes = bytes
            _ = checker.consume(bytes.span)
        }
        return checker.finish()
    }
}

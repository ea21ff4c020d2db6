// Collects the content of a response that is read whole, and holds the findings about it.

import HTTPCore
import JSON

struct CollectedContent {
    private(set) var bytes: [UInt8] = []
    /// Result of the examination, once it has ended.
    var findings = ContentExamination.Findings()
    private var checker = JSONTextChecker()
    /// JSON without a content coding is checked piece by piece, so that the end of a large response does not block the loop.
    private var isChecked = false
    /// nil for short content, which is not counted.
    private var memory: ResponseMemoryHold?

    init() {}

    /// - Parameters:
    ///   - length: announced length in bytes; nil if unknown.
    ///   - isChecked: whether the content is checked as JSON without a coding.
    ///   - reading: which JSON beyond RFC 8259 is accepted.
    init(length: Int?, isChecked: Bool, _ reading: JSONReading) {
        if let length { bytes.reserveCapacity(length) }
        (self.isChecked, checker) = (isChecked, JSONTextChecker(reading))
    }

    /// - Parameter limit: maximum length of the whole content, in bytes.
    mutating func append(_ piece: Span<UInt8>, limit: Int) {
        bytes.append(copying: piece, growingTo: limit)
        if isChecked { _ = checker.consume(piece) }
    }

    /// Reserves memory for another piece.
    /// - Returns: false if there is not enough memory for responses.
    mutating func reserve(_ count: Int, in memory: ResponseMemory, for client: UInt64) -> Bool {
        let count = bytes.count + count
        guard count > ResponseMemory.uncountedBytes else { return true }
        let hold = self.memory ?? ResponseMemoryHold(memory, for: client)
        self.memory = hold
        return hold.grow(to: count)
    }

    mutating func removeAll() { (bytes, memory) = ([], nil) }

    /// Whether an object or array follows the end of the JSON text.
    var hasSecondValue: Bool { isChecked && checker.hasSecondValue }

    /// Verdict on JSON without a content coding; nil if it was not checked.
    mutating func verdict() -> JSONVerdict? { isChecked ? checker.finish() : nil }
}

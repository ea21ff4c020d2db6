// What was done about content codings, in numbers.

public struct CodingFigures: Sendable {
    /// Responses that came without a coding and went out with gzip: taken whole, and passed on piece by piece.
    public var whole: UInt64 = 0
    public var passed: UInt64 = 0
    /// They went out as they came, since too many had gzip put on them already.
    public var refused: UInt64 = 0
    /// Passed on just now.
    public var passing = 0
    /// Stored contents that went out in another form than they are stored in: made for it, and from memory.
    public var made: UInt64 = 0
    public var remembered: UInt64 = 0
    /// Made beside the loop, while they were sent.
    public var produced: UInt64 = 0
    /// Bytes of what is remembered.
    public var heldBytes = 0

    public init() {}

    public mutating func merge(_ other: CodingFigures) {
        whole += other.whole
        passed += other.passed
        refused += other.refused
        passing += other.passing
        made += other.made
        remembered += other.remembered
        produced += other.produced
        heldBytes += other.heldBytes
    }

    func write(to writer: inout MetricsWriter) {
        writer.counter(
            "cistern_compressed_responses",
            "Responses that came without a coding and went out with gzip; refused: too many had it already.",
            [("how=\"whole\"", Double(whole)), ("how=\"passed\"", Double(passed)), ("how=\"refused\"", Double(refused))])
        writer.gauge("cistern_compressing", "Responses that are passed on with gzip just now.", Double(passing))
        writer.counter(
            "cistern_recoded_contents", "Stored contents that went out in another coding than they are stored in, or in none.",
            [("from=\"made\"", Double(made)), ("from=\"memory\"", Double(remembered)), ("from=\"beside\"", Double(produced))])
        writer.gauge("cistern_recoded_memory_bytes", "Memory for such contents, to be sent again.", Double(heldBytes))
    }
}

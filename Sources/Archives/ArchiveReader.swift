// Reads an HTTP archive entry by entry, so that memory holds only the file and one decoded entry. Mistakes name their position.

import HTTPCore
import JSON

public struct ArchiveReader: Sendable {
    /// Maximum length of an archive, which is held in memory as a whole.
    public static let limitBytes = 512 << 20

    private let text: [UInt8]
    private let entryRanges: [Range<Int>]

    /// Why the file, or one of its entries, is not an HTTP archive: a sentence with the position.
    public struct Mistake: Error, Equatable, CustomStringConvertible {
        public let description: String
        public init(_ description: String) { self.description = description }
    }

    public init(_ text: [UInt8]) throws(Mistake) {
        guard text.count <= Self.limitBytes else {
            throw Mistake("it is longer than \(Self.limitBytes >> 20) MiB; record less at a time, or remove entries")
        }
        if let (line, column) = JSONPositions.mistake(in: text.span) {
            throw Mistake("it is not JSON: line \(line), column \(column)")
        }
        guard let entryRanges = JSONPositions.elements(of: ["log", "entries"], in: text.span) else {
            throw Mistake("it is JSON, but not an HTTP archive: log.entries is missing or not a list")
        }
        (self.text, self.entryRanges) = (text, entryRanges)
    }

    public var count: Int { entryRanges.count }
    /// Length of the archive in bytes.
    public var byteCount: Int { text.count }

    /// Offset after the last entry; nil without entries.
    var entriesEnd: Int? { entryRanges.last?.upperBound }

    func bytes(_ range: some RangeExpression<Int>) -> [UInt8] { Array(text[range]) }

    /// The decoded entry; null if it is not valid JSON.
    public func entry(_ index: Int) -> JSONValue { JSONValue(Array(text[entryRanges[index]])) ?? .null }

    /// Creates a mistake with the index and the line of an entry.
    public func mistake(_ sentence: String, in index: Int) -> Mistake {
        let line = 1 + text[..<entryRanges[index].lowerBound].count { $0 == 0x0a }
        return Mistake("log.entries[\(index)], line \(line): \(sentence)")
    }

    /// Base URL of the recorded upstream; nil if Cistern did not record the archive.
    public var upstream: String? { log?["_cistern"]?["upstream"]?.string }

    /// Name of the recorder; nil if the archive does not contain it before its entries.
    public var creator: String? { log?["creator"]?["name"]?.string }

    /// The archive without its entries, and without what follows them.
    private var log: JSONValue? {
        guard let first = entryRanges.first else { return nil }
        // The text before the entries, closed to form valid JSON.
        return JSONValue(Array(text[..<first.lowerBound]) + Array("]}}".utf8))?["log"]
    }
}

// Reads an HTTP archive entry by entry, so that beside the file itself only one entry is held at a time, and says where a broken one is broken.

import HTTPCore
import JSON

public struct ArchiveReader: Sendable {
    /// Longest archive that is read: it is held whole.
    public static let limitBytes = 512 << 20

    private let text: [UInt8]
    private let places: [Range<Int>]

    /// Why the file as a whole, or an entry of it, is not an HTTP archive: a sentence with the place.
    public struct Mistake: Error, Equatable, CustomStringConvertible {
        public let description: String
        public init(_ description: String) { self.description = description }
    }

    public init(_ text: [UInt8]) throws(Mistake) {
        guard text.count <= Self.limitBytes else {
            throw Mistake("it is longer than \(Self.limitBytes >> 20) MiB; record less at a time, or leave entries out")
        }
        if let (line, column) = JSONPlaces.mistake(in: text.span) {
            throw Mistake("it is not JSON: line \(line), column \(column)")
        }
        guard let places = JSONPlaces.elements(of: ["log", "entries"], in: text.span) else {
            throw Mistake("it is JSON, but not an HTTP archive: log.entries is missing or not a list")
        }
        (self.text, self.places) = (text, places)
    }

    public var count: Int { places.count }

    /// The entry as it stands there.
    public func entry(_ index: Int) -> JSONValue { JSONValue(Array(text[places[index]])) ?? .null }

    /// What is wrong with an entry, and where.
    public func mistake(_ sentence: String, in index: Int) -> Mistake {
        let line = 1 + text[..<places[index].lowerBound].count { $0 == 0x0a }
        return Mistake("log.entries[\(index)], line \(line): \(sentence)")
    }

    /// The base URL of the recorded upstream, where Cistern has recorded.
    public var upstream: String? {
        guard let first = places.first else { return nil }
        // What stands before the entries, with an end of its own.
        let head = Array(text[..<first.lowerBound]) + Array("]}}".utf8)
        return JSONValue(head)?["log"]?["_cistern"]?["upstream"]?.string
    }
}

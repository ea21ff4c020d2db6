// Stored contents in another form, made for one client and kept in memory for others: decoded, or compressed with gzip. Frequently used
// contents are kept longest. One limit applies to all APIs together.

import Downstream
import Figures

/// Used on its shard's loop only.
public final class RecodedContents {
    struct Name: Hashable {
        /// `FoundResponse.contentNumber`.
        let content: UInt64
        let isCoded: Bool
    }

    private typealias Generation = (contents: [Name: WholeBody], bytes: Int)

    /// Contents are added to the young generation. When it is full, it becomes the old one; contents that are used there return to the
    /// young one.
    private var young: Generation = ([:], 0)
    private var old: Generation = ([:], 0)
    public var limitBytes: Int {
        didSet {
            if bytes > limitBytes { old = ([:], 0) }
            if bytes > limitBytes { young = ([:], 0) }
        }
    }
    private(set) var found = 0

    /// Bytes that an entry needs in addition to its content.
    private static let entryBytes = 96
    /// Maximum number of entries per generation. Freeing so many blocks the loop for less than a millisecond, even if they are short.
    static let entryLimit = 8_192

    /// - Parameter limitBytes: limit on all contents together.
    public init(limitBytes: Int) { self.limitBytes = limitBytes }

    public func addFigures(to figures: inout Figures) {
        figures[.recodedFromMemory] += found
        figures[.recodedMemoryBytes] += bytes
    }

    var bytes: Int { young.bytes + old.bytes }

    /// Returns the content in this form; nil if it is not kept. An empty content means that the form is not possible.
    func find(_ name: Name) -> WholeBody? {
        if let content = young.contents[name] {
            found += 1
            return content
        }
        guard let content = old.contents.removeValue(forKey: name) else { return nil }
        old.bytes -= content.count + Self.entryBytes
        found += 1
        keep(name, content)
        return content
    }

    /// Whether content of this length in bytes is short enough to be kept, so that it does not displace most of the others.
    func mayKeep(_ count: Int) -> Bool { count + Self.entryBytes <= limitBytes / 4 }

    func keep(_ name: Name, _ content: WholeBody) {
        guard mayKeep(content.count) else { return }
        let bytes = content.count + Self.entryBytes
        if young.bytes + bytes > limitBytes / 2 || young.contents.count == Self.entryLimit { (old, young) = (young, ([:], 0)) }
        young.contents[name] = content
        young.bytes += bytes
    }
}

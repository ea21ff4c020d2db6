// Stored contents in another form than they lie in the store, made for one client and kept in memory for the next: without their coding, or with
// gzip. What is asked for often stays; all of it together, of all APIs, has a limit.

import Figures

/// Touched on its shard's loop only.
public final class RecodedContents {
    struct Name: Hashable {
        /// `FoundResponse.contentNumber`.
        let content: UInt64
        let isCoded: Bool
    }

    private typealias Generation = (contents: [Name: [UInt8]], bytes: Int)

    /// The younger one is filled; then it is the older one, and what is asked for there comes back.
    private var young: Generation = ([:], 0)
    private var old: Generation = ([:], 0)
    public var limitBytes: Int {
        didSet {
            if bytes > limitBytes { old = ([:], 0) }
            if bytes > limitBytes { young = ([:], 0) }
        }
    }
    private(set) var found = 0

    /// What an entry takes beside its content.
    private static let entryBytes = 96
    /// Of one generation: freeing so many holds the loop for less than a millisecond, however short they are.
    static let entryLimit = 8_192

    /// - Parameter limitBytes: of all of them.
    public init(limitBytes: Int) { self.limitBytes = limitBytes }

    public func addFigures(to figures: inout Figures) {
        figures[.recodedFromMemory] += found
        figures[.recodedMemoryBytes] += bytes
    }

    var bytes: Int { young.bytes + old.bytes }

    /// The content in that form, where it is remembered. What cannot be had in it is empty.
    func find(_ name: Name) -> [UInt8]? {
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

    func keep(_ name: Name, _ content: [UInt8]) {
        let bytes = content.count + Self.entryBytes
        guard bytes <= limitBytes / 8 else { return }
        if young.bytes + bytes > limitBytes / 2 || young.contents.count == Self.entryLimit { (old, young) = (young, ([:], 0)) }
        young.contents[name] = content
        young.bytes += bytes
    }
}

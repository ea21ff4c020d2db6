// Stored contents in another form than they lie in the store, made for one client and kept in memory for the next: without their coding, or with
// gzip. What is asked for often stays; all of it together has a limit.

/// Touched on its shard's loop only.
final class RecodedContents {
    struct Name: Hashable {
        /// `FoundResponse.contentNumber`.
        let content: UInt64
        let isCoded: Bool
    }

    private typealias Generation = (contents: [Name: [UInt8]], bytes: Int)

    /// The younger one is filled; then it is the older one, and what is asked for there comes back.
    private var young: Generation = ([:], 0)
    private var old: Generation = ([:], 0)
    private let limitBytes: Int
    private(set) var found = 0
    private(set) var made = 0

    /// What an entry takes beside its content.
    private static let entryBytes = 96

    /// - Parameter limitBytes: of all of them.
    init(limitBytes: Int) { self.limitBytes = limitBytes }

    var bytes: Int { young.bytes + old.bytes }

    /// The content in that form, made where it is not remembered.
    /// - Parameter make: empty where it cannot be made, or nothing is won by it: that is remembered as well.
    func content(_ name: Name, make: () -> [UInt8]) -> [UInt8] {
        if let content = young.contents[name] {
            found += 1
            return content
        }
        if let content = old.contents.removeValue(forKey: name) {
            old.bytes -= content.count + Self.entryBytes
            found += 1
            keep(name, content)
            return content
        }
        let content = make()
        made += 1
        keep(name, content)
        return content
    }

    private func keep(_ name: Name, _ content: [UInt8]) {
        let bytes = content.count + Self.entryBytes
        guard bytes <= limitBytes / 8 else { return }
        if young.bytes + bytes > limitBytes / 2 { (old, young) = (young, ([:], 0)) }
        young.contents[name] = content
        young.bytes += bytes
    }
}

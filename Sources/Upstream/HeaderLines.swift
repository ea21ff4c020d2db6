// The field lines of a request as libcurl wants them: a linked list of C strings. libcurl only reads it, so all of it lies in one piece of
// memory that is used again for the next request; made by `curl_slist_append` it costs two allocations a line and a walk to its end.

import CLibcurl
import HTTPCore

/// Not copyable, since libcurl holds pointers into it until the next `fill`.
struct HeaderLines: ~Copyable {
    private var text: UnsafeMutableRawBufferPointer
    private var nodes: UnsafeMutableBufferPointer<curl_slist>
    private var used = 0
    private var count = 0

    /// Lines that are not the request's fields: at most Accept and one about the content.
    private static let ownLines = 2
    private static let ownBytes = 64

    init() {
        text = .allocate(byteCount: 2048, alignment: 1)
        nodes = .allocate(capacity: 32)
    }

    deinit {
        text.deallocate()
        nodes.deallocate()
    }

    /// The request's fields and nothing of libcurl's own: `Name:` takes one of libcurl's away, `Name;` sends an empty one.
    mutating func fill(_ request: UpstreamRequest) -> UnsafeMutablePointer<curl_slist>? {
        let fields = request.fields
        reserve(fields)
        fields.bytes.withUnsafeBytes { bytes in
            for entry in fields.entries {
                put(UnsafeRawBufferPointer(rebasing: bytes[entry.nameRange]))
                if entry.valueLength == 0 {
                    put(";")
                } else {
                    put(": ")
                    put(UnsafeRawBufferPointer(rebasing: bytes[entry.valueRange]))
                }
                endLine(entry.nameRange.count + max(1, entry.valueRange.count + 2))
            }
        }
        if !fields.contains(.accept) { putLine("Accept:") }
        if request.contentLength == 0 { putLine("Content-Length: 0") }
        if request.hasContent { putLine("Expect:") }
        return count == 0 ? nil : nodes.baseAddress
    }

    private mutating func reserve(_ fields: Fields) {
        used = 0
        count = 0
        var bytes = Self.ownBytes
        for entry in fields.entries { bytes += Int(entry.nameLength) + Int(entry.valueLength) + 3 }
        if bytes > text.count {
            text.deallocate()
            text = .allocate(byteCount: bytes * 2, alignment: 1)
        }
        if fields.count + Self.ownLines > nodes.count {
            nodes.deallocate()
            nodes = .allocate(capacity: (fields.count + Self.ownLines) * 2)
        }
    }

    private mutating func put(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        (text.baseAddress! + used).copyMemory(from: source, byteCount: bytes.count)
        used += bytes.count
    }

    private mutating func put(_ literal: StaticString) {
        put(UnsafeRawBufferPointer(start: literal.utf8Start, count: literal.utf8CodeUnitCount))
    }

    private mutating func putLine(_ literal: StaticString) {
        put(literal)
        endLine(literal.utf8CodeUnitCount)
    }

    /// The last `length` bytes are a line: it gets its end and its place in the list.
    private mutating func endLine(_ length: Int) {
        let start = (text.baseAddress! + used - length).assumingMemoryBound(to: CChar.self)
        text[used] = 0
        used += 1
        let node = nodes.baseAddress! + count
        node.initialize(to: curl_slist(data: start, next: nil))
        if count > 0 { (node - 1).pointee.next = node }
        count += 1
    }
}

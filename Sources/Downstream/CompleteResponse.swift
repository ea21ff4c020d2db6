// A response as it went out, to be given again to requests that are like the one that got it, whatever protocol they come by. Belongs to one loop.

import HTTP2

public final class CompleteResponse {
    /// Status line, field lines, the empty line, content.
    public let bytes: UnsafeRawBufferPointer
    private lazy var contentStart = Self.contentStart(of: bytes)
    /// Where the last field line begins.
    private lazy var lastLineStart = Self.lastLineStart(of: bytes, before: contentStart)
    /// Made when a client of HTTP/2 gets it first.
    private(set) lazy var fields = HTTP2KeptFields(
        HTTP2ResponseFields.make(
            head: UnsafeRawBufferPointer(rebasing: bytes[..<max(0, contentStart - 2)]), lines: UnsafeRawBufferPointer(start: nil, count: 0))
    )

    /// - Parameter response: is copied.
    public init(_ response: UnsafeRawBufferPointer) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: response.count, alignment: 1)
        copy.copyMemory(from: response)
        bytes = UnsafeRawBufferPointer(copy)
    }

    /// By hand: the library's search for a pattern takes some hundred times as long, and a hit that is kept waits for this.
    private static func contentStart(of response: UnsafeRawBufferPointer) -> Int {
        var end = 4
        while end <= response.count {
            if response[end - 1] == 0x0a, response[end - 2] == 0x0d, response[end - 3] == 0x0a, response[end - 4] == 0x0d { return end }
            end += 1
        }
        return response.count
    }

    private static func lastLineStart(of response: UnsafeRawBufferPointer, before contentStart: Int) -> Int {
        // Behind it stand its own end and the empty line.
        var start = max(0, contentStart - 4)
        while start > 0, response[start - 1] != 0x0a { start -= 1 }
        return start
    }

    deinit { bytes.deallocate() }

    // MARK: Another last line

    /// Gives all of it with another line in the place of the last one.
    /// - Parameters:
    ///   - line: with its end.
    ///   - space: memory to put it together in, where there is enough of it.
    func withBytes(endingWith line: [UInt8], in space: UnsafeMutableRawBufferPointer, _ take: (UnsafeRawBufferPointer) -> Void) {
        let rest = UnsafeRawBufferPointer(rebasing: bytes[max(0, contentStart - 2)...])
        let count = lastLineStart + line.count + rest.count
        guard count <= space.count else {
            let joined = Array(bytes[..<lastLineStart]) + line + Array(rest)
            return joined.withUnsafeBytes(take)
        }
        space.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<lastLineStart]))
        UnsafeMutableRawBufferPointer(rebasing: space[lastLineStart...]).copyBytes(from: line)
        UnsafeMutableRawBufferPointer(rebasing: space[(lastLineStart + line.count)...]).copyMemory(from: rest)
        take(UnsafeRawBufferPointer(rebasing: space[..<count]))
    }

    /// The same for HTTP/2.
    func fields(endingWith line: [UInt8]) -> HTTP2FieldList {
        line.withUnsafeBytes { line in
            HTTP2ResponseFields.make(head: UnsafeRawBufferPointer(rebasing: bytes[..<lastLineStart]), lines: line)
        }
    }

    var content: WholeBody { .borrowed(UnsafeRawBufferPointer(rebasing: bytes[contentStart...]), owner: self) }
}

// A sent response that is kept to be sent again for repeated requests of any HTTP version. Belongs to one event loop.

import HTTP2

public final class CompleteResponse {
    /// Status line, field lines, the empty line and the content.
    public let bytes: UnsafeRawBufferPointer
    private lazy var contentStart = Self.contentStart(of: bytes)
    /// Offset of the last field line.
    private lazy var lastLineStart = Self.lastLineStart(of: bytes, before: contentStart)
    /// The fields for HTTP/2. Created when the first HTTP/2 client receives the response.
    private(set) lazy var fields = HTTP2ReusableFields(
        HTTP2ResponseFields.make(
            head: UnsafeRawBufferPointer(rebasing: bytes[..<max(0, contentStart - 2)]), lines: UnsafeRawBufferPointer(start: nil, count: 0))
    )

    /// - Parameter response: bytes of the response; they are copied.
    public init(_ response: UnsafeRawBufferPointer) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: response.count, alignment: 1)
        copy.copyMemory(from: response)
        bytes = UnsafeRawBufferPointer(copy)
    }

    /// A manual search. The standard library's search for a pattern takes about a hundred times as long and would delay the hit.
    private static func contentStart(of response: UnsafeRawBufferPointer) -> Int {
        var end = 4
        while end <= response.count {
            if response[end - 1] == 0x0a, response[end - 2] == 0x0d, response[end - 3] == 0x0a, response[end - 4] == 0x0d { return end }
            end += 1
        }
        return response.count
    }

    private static func lastLineStart(of response: UnsafeRawBufferPointer, before contentStart: Int) -> Int {
        // The last field line is followed by its line end and the empty line.
        var start = max(0, contentStart - 4)
        while start > 0, response[start - 1] != 0x0a { start -= 1 }
        return start
    }

    deinit { bytes.deallocate() }

    // MARK: Replacing the last field line

    /// Calls `take` with the response in which another line replaces the last field line.
    /// - Parameters:
    ///   - line: the field line with its line end.
    ///   - space: memory to assemble the response in, if it is large enough.
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

    /// The fields for HTTP/2, with another line in place of the last field line.
    func fields(endingWith line: [UInt8]) -> HTTP2FieldList {
        line.withUnsafeBytes { line in
            HTTP2ResponseFields.make(head: UnsafeRawBufferPointer(rebasing: bytes[..<lastLineStart]), lines: line)
        }
    }

    var content: WholeBody { .borrowed(UnsafeRawBufferPointer(rebasing: bytes[contentStart...]), owner: self) }
}

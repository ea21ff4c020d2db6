// A response as it went out, to be given again to requests that are like the one that got it, whatever protocol they come by. Belongs to one loop.

import HTTP2

public final class CompleteResponse {
    /// Status line, field lines, the empty line, content.
    public let bytes: UnsafeRawBufferPointer
    private lazy var contentStart = Self.contentStart(of: bytes)
    /// Made when a client of HTTP/2 gets it first.
    private(set) lazy var fields = HTTP2ResponseFields.make(
        head: UnsafeRawBufferPointer(rebasing: bytes[..<max(0, contentStart - 2)]), lines: UnsafeRawBufferPointer(start: nil, count: 0))

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

    deinit { bytes.deallocate() }

    var content: WholeBody { .borrowed(UnsafeRawBufferPointer(rebasing: bytes[contentStart...]), owner: self) }
}

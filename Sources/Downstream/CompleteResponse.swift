// A response as it went out, to be given again to requests that are like the one that got it, whatever protocol they come by. Belongs to one loop.

import HTTP2

package final class CompleteResponse {
    /// Status line, field lines, the empty line, content.
    package let bytes: UnsafeRawBufferPointer
    private let contentStart: Int
    /// Made when a client of HTTP/2 gets it first.
    private(set) lazy var fields = HTTP2ResponseFields.make(
        head: UnsafeRawBufferPointer(rebasing: bytes[..<max(0, contentStart - 2)]), lines: UnsafeRawBufferPointer(start: nil, count: 0))

    /// - Parameter response: is copied.
    package init(_ response: UnsafeRawBufferPointer) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: response.count, alignment: 1)
        copy.copyMemory(from: response)
        bytes = UnsafeRawBufferPointer(copy)
        contentStart = response.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound ?? response.count
    }

    deinit { bytes.deallocate() }

    var content: WholeBody { .borrowed(UnsafeRawBufferPointer(rebasing: bytes[contentStart...]), owner: self) }
}

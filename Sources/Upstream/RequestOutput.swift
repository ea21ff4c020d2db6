// The output of one request on a connection: its head, then its content in pieces. Tracks how much was sent. Pure; the connection sends.

import HTTPCore

struct RequestOutput {
    private enum Rest {
        /// More content must be taken.
        case content
        case nothing
        /// The peer accepts no more bytes. It may have sent a response nevertheless.
        case broken
    }

    /// The current output; the part from `sent` on remains to be sent.
    private(set) var bytes: [UInt8] = []
    private(set) var sent = 0
    /// Number of bytes of the head that the kernel has not accepted yet.
    private var unsentHead = 0
    private var rest = Rest.nothing

    /// Maximum capacity in bytes that is kept for the next request.
    private static let keptBytes = 4 * 1024

    /// Begins a request.
    /// - Parameter writeHead: appends its head.
    mutating func begin(hasContent: Bool, _ writeHead: (inout [UInt8]) -> Void) {
        writeHead(&bytes)
        unsentHead = bytes.count
        rest = hasContent ? .content : .nothing
    }

    /// Whether nothing must be sent now.
    var isEmpty: Bool { sent == bytes.count }
    var isBroken: Bool { rest == .broken }
    var isHeadSent: Bool { unsentHead == 0 }
    var isAllSent: Bool { rest == .nothing && isEmpty }
    /// Whether the next piece of the content must be taken when the current output was sent.
    var takesContent: Bool { rest == .content }

    mutating func noteSent(_ count: Int) {
        sent += count
        unsentHead = max(0, unsentHead - count)
        if isEmpty { clear() }
    }

    private mutating func clear() {
        if bytes.capacity > Self.keptBytes { bytes = [] } else { bytes.removeAll(keepingCapacity: true) }
        sent = 0
    }

    /// - Parameter take: appends a piece of the content.
    mutating func takeContent(_ take: (inout [UInt8]) -> PendingContent.Piece) {
        if take(&bytes) == .end { rest = .nothing }
    }

    /// Drops the remaining output because the peer accepts no more bytes.
    mutating func breakOff() {
        rest = .broken
        bytes = []
        sent = 0
    }
}

// What of one request goes into a connection's socket, in order: its head, then its content in pieces. Whether all of it has gone, or the peer takes no
// more. Pure; the connection sends.

import HTTPCore

struct RequestOutput {
    private enum Rest {
        /// More of the content is to be taken.
        case content
        case nothing
        /// The peer takes no more. It may have responded all the same.
        case broken
    }

    /// What is to be sent: from `sent` on.
    private(set) var bytes: [UInt8] = []
    private(set) var sent = 0
    /// Of the head, what the kernel has not taken.
    private var unsentHead = 0
    private var rest = Rest.nothing

    /// Room for so much is kept for the next request.
    private static let keptBytes = 4 * 1024

    /// Another request begins.
    /// - Parameter writeHead: appends its head.
    mutating func begin(hasContent: Bool, _ writeHead: (inout [UInt8]) -> Void) {
        writeHead(&bytes)
        unsentHead = bytes.count
        rest = hasContent ? .content : .nothing
    }

    /// Whether nothing is left to send for now.
    var isEmpty: Bool { sent == bytes.count }
    var isBroken: Bool { rest == .broken }
    var isHeadSent: Bool { unsentHead == 0 }
    var isAllSent: Bool { rest == .nothing && isEmpty }
    /// Whether the content's next piece is to be taken, as soon as there is nothing left to send.
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

    /// The peer takes no more: what is left is dropped.
    mutating func breakOff() {
        rest = .broken
        bytes = []
        sent = 0
    }
}

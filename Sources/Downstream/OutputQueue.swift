// What the kernel has not taken yet of an answer: bytes of our own, then perhaps the rest of a body that lies elsewhere and is kept alive by
// its owner instead of being copied.

import CSystem
import Glibc

/// The content of an answer that is sent as a whole.
package enum WholeBody {
    case none
    case bytes([UInt8])
    /// Lies in `owner`'s memory, which stays as long as it is held.
    case borrowed(UnsafeRawBufferPointer, owner: AnyObject)

    package var count: Int {
        switch self {
        case .none: 0
        case .bytes(let bytes): bytes.count
        case .borrowed(let bytes, _): bytes.count
        }
    }

    /// A piece of a borrowed body, or a copy of a piece.
    package func part(_ range: Range<Int>) -> WholeBody {
        switch self {
        case .none: .none
        case .bytes(let bytes): .bytes(Array(bytes[range]))
        case .borrowed(let bytes, let owner): .borrowed(UnsafeRawBufferPointer(rebasing: bytes[range]), owner: owner)
        }
    }

    package func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        switch self {
        case .none: body(UnsafeRawBufferPointer(start: nil, count: 0))
        case .bytes(let bytes): bytes.withUnsafeBytes(body)
        case .borrowed(let bytes, _): body(bytes)
        }
    }
}

struct OutputQueue {
    private var bytes: [UInt8] = []
    private var sent = 0
    private var tail = WholeBody.none
    private var tailSent = 0

    /// Bodies up to this size are copied: cheaper than keeping what they lie in.
    private static let copyLimit = 64 * 1024

    var isEmpty: Bool { sent == bytes.count && tailSent == tail.count }
    var count: Int { bytes.count - sent + tail.count - tailSent }

    /// What it takes of memory that nobody else needs: until all of it is sent.
    var heldBytes: Int {
        if case .bytes(let rest) = tail { return bytes.count + rest.count }
        return bytes.count
    }

    mutating func append(_ more: UnsafeRawBufferPointer) {
        if tail.count > 0 { settleTail() }
        bytes.append(contentsOf: more)
    }

    /// What is left of `body` from `offset` on.
    mutating func append(_ body: WholeBody, from offset: Int) {
        guard offset < body.count else { return }
        if body.count - offset <= Self.copyLimit {
            body.withBytes { append(UnsafeRawBufferPointer(rebasing: $0[offset...])) }
        } else {
            if tail.count > 0 { settleTail() }
            (tail, tailSent) = (body, offset)
        }
    }

    /// Sends what the kernel takes. Returns false where the connection is broken.
    mutating func send(to descriptor: Int32) -> Bool {
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return count < 0 && (errno == EAGAIN || errno == EINTR) }
            sent += count
        }
        (bytes, sent) = ([], 0)
        while tailSent < tail.count {
            let count = tail.withBytes { Glibc.send(descriptor, $0.baseAddress! + tailSent, $0.count - tailSent, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return count < 0 && (errno == EAGAIN || errno == EINTR) }
            tailSent += count
        }
        (tail, tailSent) = (.none, 0)
        return true
    }

    /// Something follows a tail: seldom (only pipelined answers), so the tail is copied.
    private mutating func settleTail() {
        tail.withBytes { bytes.append(contentsOf: $0[tailSent...]) }
        (tail, tailSent) = (.none, 0)
    }
}

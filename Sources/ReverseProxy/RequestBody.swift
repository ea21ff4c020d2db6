// The content of a request, read whole or streamed.

import Downstream
import Explanation
import HTTPCore
import Upstream

enum RequestBody {
    case none
    case whole(WholeContent)
    case streamed(StreamedContent)

    /// Framing of the content for the upstream. Chunked content that was read whole is sent with a length.
    var framing: ContentFraming {
        switch self {
        case .none: .none
        case .whole(let content): .length(content.bytes.count)
        case .streamed(let content): content.framing
        }
    }

    /// The content if it was read whole; otherwise empty.
    var bytes: [UInt8] { if case .whole(let content) = self { content.bytes } else { [] } }

    /// Time from the request head until the content was complete, in microseconds.
    var waitedMicroseconds: Int64 {
        if case .whole(let content) = self { content.waitedMicroseconds } else { 0 }
    }

    /// nil if there is no content.
    var outcome: ContentOutcome? {
        switch self {
        case .none: nil
        case .whole(let content): content.hold == nil ? nil : .whole
        case .streamed(let content): content.reason.map(ContentOutcome.init)
        }
    }
}

/// Content that was read before the request was processed.
struct WholeContent {
    let bytes: [UInt8]
    /// Reserved memory of the content; nil if none is reserved.
    let hold: ContentHold?
    let waitedMicroseconds: Int64

    /// For a request with `Content-Length: 0`.
    static var empty: WholeContent { WholeContent(bytes: [], hold: nil, waitedMicroseconds: 0) }
}

/// Content that is forwarded as it arrives.
struct StreamedContent {
    let framing: ContentFraming
    /// Why the content is streamed. nil for a tunnel, or if Cistern responds without reading the content.
    let reason: StreamingReason?
    /// Reserved memory of the content that was collected before streaming; nil if there was none.
    var hold: ContentHold?
    /// True if the client waits for 100 (Continue) before it sends the content (RFC 9110 §10.1.1).
    let awaitsContinue: Bool

    /// Data of another protocol, sent if the upstream switches to it.
    static var tunnel: StreamedContent { unread(.tunnel) }

    /// Content that is not read.
    static func unread(_ framing: ContentFraming) -> StreamedContent {
        StreamedContent(framing: framing, reason: nil, hold: nil, awaitsContinue: false)
    }
}

extension ContentOutcome {
    init(_ reason: StreamingReason) {
        self =
            switch reason {
            case .tooLong: .streamedTooLong
            case .noCapacity: .streamedNoRoom
            }
    }
}

// What a request brings beside its head, as the flow hands it on.

import Downstream
import Explanation
import HTTPCore
import Upstream

enum RequestBody {
    case none
    case whole(WholeContent)
    case streamed(StreamedContent)

    /// How it goes to the upstream: what came in chunks and was taken whole has a length there.
    var framing: ContentFraming {
        switch self {
        case .none: .none
        case .whole(let content): .length(content.bytes.count)
        case .streamed(let content): content.framing
        }
    }

    /// Of content that streams nothing is there yet.
    var bytes: [UInt8] { if case .whole(let content) = self { content.bytes } else { [] } }

    /// From the request's head until its content was whole.
    var waitedMicroseconds: Int64 {
        if case .whole(let content) = self { content.waitedMicroseconds } else { 0 }
    }

    /// nil where there is no content.
    var outcome: ContentOutcome? {
        switch self {
        case .none: nil
        case .whole(let content): content.hold == nil ? nil : .whole
        case .streamed(let content): content.reason.map(ContentOutcome.init)
        }
    }
}

/// Content that was there before anything was asked for it.
struct WholeContent {
    let bytes: [UInt8]
    /// Its part of the budget; nil where there is nothing to hold.
    let hold: ContentHold?
    let waitedMicroseconds: Int64

    /// `Content-Length: 0`.
    static var empty: WholeContent { WholeContent(bytes: [], hold: nil, waitedMicroseconds: 0) }
}

/// Content that is passed on as it comes.
struct StreamedContent {
    let framing: ContentFraming
    /// nil where Cistern responds itself, whatever the content.
    let reason: StreamingReason?
    /// Of what was taken before it was known that it streams.
    var hold: ContentHold?
    /// The client sends it when it is told to (RFC 9110 §10.1.1).
    let awaitsContinue: Bool

    /// What another protocol says, if the upstream changes to it.
    static var tunnel: StreamedContent { unread(.tunnel) }

    /// Content that is let go by, whatever it says.
    static func unread(_ framing: ContentFraming) -> StreamedContent {
        StreamedContent(framing: framing, reason: nil, hold: nil, awaitsContinue: false)
    }

    /// Those whose content streams hold a connection for as long as their clients like: half of all, so that others have the rest.
    static func share(of connections: Int) -> ConnectionShare { ConnectionShare(.streamedContent, .connections(connections / 2)) }
}

extension ContentOutcome {
    init(_ reason: StreamingReason) {
        self =
            switch reason {
            case .tooLong: .streamedTooLong
            case .noRoom: .streamedNoRoom
            }
    }
}

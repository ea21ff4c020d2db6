// Whether a request with content may use an HTTP/2 connection. All streams share the connection's flow-control window (RFC 9113 §5.2), and
// many upstreams return it only while they read the content. Content that the upstream does not read must not stop the content of other
// requests. Therefore the content of a request fits into the window beside all unsent content, or no other content is unsent. Pure.

import HTTPCore

/// The window and the content of the requests on one connection, in bytes.
struct ContentWindow {
    /// Content of the connection's requests that has not been written.
    var unsent = 0
    /// Largest window so far.
    private var largest = initialBytes

    /// Window of a new connection (RFC 9113 §6.9.2).
    static let initialBytes = 65_535
    /// Upper limit of a content length, and the value for an unknown length. It exceeds every window.
    static let longest = Int.max / 1_024

    init(unsent: Int = 0) { self.unsent = unsent }

    mutating func note(window: Int) { largest = max(largest, window) }

    /// Whether the content of a further request is not stopped by other content, and stops none.
    /// - Parameter window: the remaining window of the connection.
    func mayCarry(_ content: Int, window: Int) -> Bool {
        // Upstreams may collect half of the window before they return it. If less is left, they have not read some content.
        content == 0 || content <= window - unsent || (unsent == 0 && window >= largest / 2)
    }
}

extension UpstreamRequest {
    /// Length of the content for `ContentWindow`; 0 if there is none.
    var contentBytes: Int {
        switch content {
        case .none: 0
        case .length(let count): min(count, ContentWindow.longest)
        case .chunked, .tunnel: ContentWindow.longest
        }
    }
}

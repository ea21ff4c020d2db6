// One exchange on a multiplexed connection: an HTTP/2 stream and its transfer.

import HTTPCore

final class HTTP2Exchange {
    let transfer: Transfer
    let connection: HTTP2OriginConnection
    /// The number of the stream; 0 if none was opened.
    var stream: Int32 = 0
    var reader: HTTP2ResponseReader
    /// Content that has arrived while the transfer is paused, at most the stream's flow-control window; nil while the transfer is not
    /// paused.
    var held: [UInt8]?
    /// Whether the request's head has been written.
    var isSent = false
    /// Whether the request's content has been written completely.
    var isRequestWhole: Bool
    /// Bytes of the request's content that have not been written (`ContentWindow`); 0 without a stream.
    var unsent = 0 { didSet { connection.content.unsent += unsent - oldValue } }
    /// Whether the upstream has sent the complete response. A part of it may still be held.
    var hasEnded = false
    /// Whether the library reset the stream because the response is invalid.
    var isInvalid = false

    init(_ transfer: Transfer, _ connection: HTTP2OriginConnection) {
        self.transfer = transfer
        self.connection = connection
        reader = HTTP2ResponseReader(to: transfer.request.method, limits: transfer.client.limits.head)
        isRequestWhole = !transfer.request.hasContent
    }
}

// One exchange on a connection that carries several: a stream of HTTP/2 and the transfer that it is for.

import HTTPCore

final class HTTP2Exchange {
    let transfer: Transfer
    let connection: HTTP2OriginConnection
    /// The stream's number; 0 where it never got one.
    var stream: Int32 = 0
    var reader: HTTP2ResponseReader
    /// What has come and the transfer would not take: no more than the stream's window. nil where it takes what comes.
    var held: [UInt8]?
    /// The request's head has been written.
    var isSent = false
    /// So has all of its content.
    var isRequestWhole: Bool
    /// The upstream has sent all of the response. What of it is held has yet to be taken.
    var hasEnded = false
    /// Why the library reset the stream: the response cannot be used.
    var isInvalid = false

    init(_ transfer: Transfer, _ connection: HTTP2OriginConnection) {
        self.transfer = transfer
        self.connection = connection
        reader = HTTP2ResponseReader(to: transfer.request.method, limits: transfer.client.limits.head)
        isRequestWhole = !transfer.request.hasContent
    }
}

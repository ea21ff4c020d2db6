// Sends a stored response: its head and body as they lie in the store, and the lines that are made anew each time.

import CachePolicy
import CacheStore
import Downstream
import HTTPCore

enum StoredAnswer {
    /// Answers the client's own condition with 304 where it holds.
    /// - Parameters:
    ///   - head: the request's.
    ///   - compressFrom: `ProxySettings.compressFromBytes`.
    /// - Returns: the status that went out.
    static func send(
        _ found: FoundResponse, to head: RequestHead, lines: [UInt8], compressFrom: Int, on connection: ClientConnection
    ) -> Status {
        let body = WholeBody.borrowed(found.item.body, owner: found.item.owner)
        return send(
            storedHead: found.item.head, metadata: found.metadata, body: body, to: head, lines: lines, compressFrom: compressFrom,
            on: connection)
    }

    static func send(
        storedHead: UnsafeRawBufferPointer, metadata: StoredMetadata, body: WholeBody, to head: RequestHead, lines: [UInt8],
        compressFrom: Int, on connection: ClientConnection
    ) -> Status {
        let isConditional = head.fields.contains(.ifNoneMatch) || head.fields.contains(.ifModifiedSince)
        if isConditional, head.method.isSafe, Preconditions.isNotModified(head.fields, stored: metadata, head: storedHead) {
            sendAnother(Preconditions.notModifiedHead(storedHead), .none, lines, connection)
            return 304
        }
        // RFC 9110 §14.2: a Range means something to GET only.
        if head.fields.contains(.range), head.method == .get {
            switch RangeRequest(head.fields, count: body.count, stored: metadata, head: storedHead) {
            case .whole: break
            case .part(let range):
                sendAnother(StoredHead.partial(storedHead, range, of: body.count), body.part(range), lines, connection)
                return 206
            case .unsatisfiable:
                sendAnother(StoredHead.unsatisfiable(storedHead, count: body.count), .none, lines, connection)
                return 416
            }
        }
        if compressFrom > 0, body.count >= compressFrom, !metadata.flags.contains(.noTransform) {
            return sendNegotiated(storedHead, metadata, body, head, lines, connection)
        }
        lines.withUnsafeBytes { connection.sendWhole(head: storedHead, lines: $0, body: body) }
        return metadata.status
    }

    /// Longer content goes out as it is: coding it would hold up the loop.
    private static let compressLimitBytes = 1 << 20

    /// With gzip to a client that asked for it by name, else as it is; both say that it depends on that.
    private static func sendNegotiated(
        _ storedHead: UnsafeRawBufferPointer, _ metadata: StoredMetadata, _ body: WholeBody, _ head: RequestHead, _ lines: [UInt8],
        _ connection: ClientConnection
    ) -> Status {
        var coded: [UInt8]?
        if head.method != .head, body.count <= compressLimitBytes, AcceptedCoding.accepts(.gzip, in: head.fields) {
            coded = body.withBytes { GzipEncoder.encode($0) }
        }
        let bytes = StoredHead.negotiated(storedHead, codedBytes: coded?.count) ?? Array(storedHead)
        sendAnother(bytes, coded.map { .bytes($0) } ?? body, lines, connection)
        return metadata.status
    }

    /// Bytes of content that an answer with this status has sent.
    static func sentBytes(_ status: Status, _ head: RequestHead, _ found: FoundResponse) -> Int {
        guard status != 304, status != 416, head.method != .head else { return 0 }
        guard status == 206,
            case .part(let range) = RangeRequest(
                head.fields, count: found.item.body.count, stored: found.metadata, head: found.item.head)
        else { return found.item.body.count }
        return range.count
    }

    private static func sendAnother(_ head: [UInt8], _ body: WholeBody, _ lines: [UInt8], _ connection: ClientConnection) {
        head.withUnsafeBytes { bytes in
            lines.withUnsafeBytes { connection.sendWhole(head: bytes, lines: $0, body: body) }
        }
    }
}

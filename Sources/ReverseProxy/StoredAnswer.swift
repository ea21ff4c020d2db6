// Sends a stored response: its head and body as they lie in the store, and the lines that are made anew each time.

import CachePolicy
import CacheStore
import Downstream
import HTTPCore

enum StoredAnswer {
    /// Answers the client's own condition with 304 where it holds.
    /// - Parameter head: the request's.
    /// - Returns: the status that went out.
    static func send(_ found: FoundResponse, to head: RequestHead, lines: [UInt8], on connection: ClientConnection) -> Status {
        let body = WholeBody.borrowed(found.item.body, owner: found.item.owner)
        return send(storedHead: found.item.head, metadata: found.metadata, body: body, to: head, lines: lines, on: connection)
    }

    static func send(
        storedHead: UnsafeRawBufferPointer, metadata: StoredMetadata, body: WholeBody, to head: RequestHead, lines: [UInt8],
        on connection: ClientConnection
    ) -> Status {
        let isConditional = head.fields.contains(.ifNoneMatch) || head.fields.contains(.ifModifiedSince)
        if isConditional, Preconditions.isNotModified(head.fields, stored: metadata, head: storedHead) {
            let notModified = Preconditions.notModifiedHead(storedHead)
            notModified.withUnsafeBytes { bytes in
                lines.withUnsafeBytes { connection.sendWhole(head: bytes, lines: $0, body: .none) }
            }
            return 304
        }
        lines.withUnsafeBytes { connection.sendWhole(head: storedHead, lines: $0, body: body) }
        return metadata.status
    }
}

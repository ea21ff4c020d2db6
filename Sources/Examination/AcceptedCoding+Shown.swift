// What a client gets of a response that arrived whole: with its coding, or without.

import CachePolicy
import Forwarding
import HTTPCore

extension AcceptedCoding {
    /// A response that arrived whole, as the client of `request` gets it.
    /// - Parameter decoded: the content without its coding; nil where it has none, or none that can be taken off.
    public static func shown(
        _ head: ResponseHead, _ content: [UInt8], decoded: [UInt8]?, to request: RequestHead
    ) -> (head: ResponseHead, content: [UInt8]) {
        // no-transform is absolute (RFC 9110 §7.7).
        guard let decoded, let coding = ContentCoding(head.fields), !accepts(coding, in: request.fields),
            !ResponseCacheControl(head.fields).noTransform
        else { return (head, content) }
        var plain = head
        StoredHead.removeCoding(from: &plain.fields)
        return (plain, decoded)
    }
}

// Selects the content coding in which a client receives a response that arrived whole.

import CachePolicy
import Forwarding
import HTTPCore

extension AcceptedCoding {
    /// The response in the form that the client of `request` receives.
    /// - Parameter decoded: the content without its coding; nil if it has no coding, or one that cannot be decoded.
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

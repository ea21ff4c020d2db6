// Evaluates the client's conditional fields against a stored response (RFC 9110 §13, RFC 9111 §4.3.2).

import Forwarding
import HTTPCore

public enum Preconditions {
    /// Returns whether the client already has this response. If-None-Match takes precedence over If-Modified-Since (RFC 9110 §13.2.2).
    public static func isNotModified(_ request: Fields, stored: StoredMetadata, head: Span<UInt8>) -> Bool {
        guard stored.status == 200 else { return false }
        if request.contains(.ifNoneMatch) {
            let own = Validation.slice(head, stored.etag)
            return request.all(.ifNoneMatch).contains { value in
                FieldMembers(of: value, hasEscapes: false).contains { tag in
                    tag.count == 1 && tag.first == UInt8(ascii: "*") || own.map { weaklyEqual(tag, $0[...]) } ?? false
                }
            }
        }
        guard let since = request.first(.ifModifiedSince), let requestedTime = HTTPDate.parse(since, now: stored.responseTime.seconds)
        else {
            return false
        }
        // RFC 9111 §4.3.2: without Last-Modified, Date is compared. This says nothing about a response without a lifetime, which the upstream
        // has just sent, nor about a time after the response was received: a client may send its own time, and its clock may be ahead.
        guard let text = Validation.slice(head, stored.lastModified) else {
            let received = max(stored.date.seconds, stored.responseTime.seconds)
            return stored.freshnessLifetime ?? 0 > 0 && (stored.date.seconds...received).contains(requestedTime)
        }
        guard let modified = HTTPDate.parse(text[...], now: stored.responseTime.seconds) else { return false }
        return modified <= requestedTime
    }

    /// Weak comparison (RFC 9110 §8.8.3.2): the opaque parts are equal. A tag that Cistern weakened equals the upstream's tag.
    public static func weaklyEqual(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> Bool {
        opaque(left).elementsEqual(opaque(right))
    }

    private static func opaque(_ tag: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let tag = EntityTag.upstream(tag)
        return EntityTag.isWeak(tag) ? tag.dropFirst(2) : tag
    }

    /// Fields that describe only the content, which the client already has, besides digests.
    private static let contentFields: KnownFieldSet = [.contentEncoding, .contentLength, .contentRange, .contentType]

    /// Returns the head of the 304 that replaces a complete response. It has every field that may have changed since the client stored its
    /// response, so that the client can update it (RFC 9110 §15.4.5, RFC 9111 §3.2).
    public static func notModified(_ complete: ResponseHead) -> ResponseHead {
        var head = complete
        (head.status, head.reason) = (304, [])
        head.fields.removeAll { entry, bytes in
            let name = bytes.span.extracting(entry.nameRange)
            return contentFields.holds(entry) || StoredHead.isDigest(name) || name.equalsIgnoringCase("content-language")
        }
        return head
    }

    /// - Parameter stored: head of a stored response.
    public static func notModifiedHead(_ stored: Span<UInt8>) -> [UInt8] {
        var out: [UInt8] = []
        ResponseSerializer.append(notModified(StoredHead.parse(stored) ?? ResponseHead(status: 304)), to: &out)
        return out
    }
}

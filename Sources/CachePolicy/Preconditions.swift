// Evaluates the client's conditional fields against a stored response (RFC 9110 §13, RFC 9111 §4.3.2).

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
        // RFC 9111 §4.3.2: without Last-Modified, Date is compared. This says nothing about a response without a lifetime: the upstream has
        // just sent it, and the clock of a client that compares with its own time may be ahead.
        guard let text = Validation.slice(head, stored.lastModified) else {
            return stored.freshnessLifetime ?? 0 > 0 && stored.date.seconds <= requestedTime
        }
        guard let modified = HTTPDate.parse(text[...], now: stored.responseTime.seconds) else { return false }
        return modified <= requestedTime
    }

    /// Weak comparison (RFC 9110 §8.8.3.2): the opaque parts are equal, whether the tags are weak or not.
    public static func weaklyEqual(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> Bool {
        opaque(left).elementsEqual(opaque(right))
    }

    private static func opaque(_ tag: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        tag.count >= 2 && tag.first == UInt8(ascii: "W") && tag[tag.startIndex + 1] == UInt8(ascii: "/") ? tag.dropFirst(2) : tag
    }

    /// The fields of the stored head that a 304 carries (RFC 9110 §15.4.5), and the CORS fields, without which a browser denies scripts
    /// access.
    public static func notModifiedHead(_ stored: Span<UInt8>) -> [UInt8] {
        let carried: [KnownField] = [.cacheControl, .contentLocation, .date, .etag, .expires, .vary, .lastModified, .cacheStatus, .via]
        var fields = Fields()
        let source = StoredHead.parse(stored)?.fields ?? Fields()
        for index in 0..<source.count {
            let name = source.name(at: index)
            let isForBrowsers = name.prefix(15).equalsIgnoringCase("access-control-")
            guard isForBrowsers || source.entries[index].known.map(carried.contains) == true else { continue }
            fields.append(name: Array(name).span, value: Array(source.value(at: index)).span)
        }
        var out: [UInt8] = []
        ResponseSerializer.append(ResponseHead(status: 304, fields: fields), to: &out)
        return out
    }
}

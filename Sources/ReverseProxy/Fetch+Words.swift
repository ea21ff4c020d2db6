// What a fetch asks of heads, in its own words.

import CachePolicy
import HTTPCore

extension NotStoredReason {
    /// Why the store had nothing to do with a request.
    static func bypassed(_ head: RequestHead) -> NotStoredReason {
        if head.method != .get { return .methodNotCacheable }
        if head.fields.contains(.range) { return .rangeRequest }
        if head.fields.contains(.ifMatch) || head.fields.contains(.ifUnmodifiedSince) || head.fields.contains(.ifRange) {
            return .preconditions
        }
        return .requestContent
    }
}

extension DeltaSeconds {
    /// A Content-Length that the upstream side has checked already.
    static func length(_ text: ArraySlice<UInt8>) -> Int? { text.reduce(0) { $0 * 10 + Int($1 & 0x0f) } }
}

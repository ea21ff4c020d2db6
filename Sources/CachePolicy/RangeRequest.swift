// Serves a byte range of a stored response (RFC 9110 §14.2, RFC 9111 §3.4). Supports a single range; a request for several ranges gets the
// whole response, which the RFC permits.

import HTTPCore

public enum RangeRequest: Sendable, Equatable {
    /// The If-Range condition fails, or Range is invalid or unsupported: the whole response is sent.
    case whole
    case part(Range<Int>)
    /// The range lies outside of the content: 416.
    case unsatisfiable

    /// - Parameters:
    ///   - count: length of the stored content in bytes.
    ///   - head: stored head, which contains the validators.
    public init(_ request: Fields, count: Int, stored: StoredMetadata, head: Span<UInt8>) {
        self = .whole
        let lines = request.all(.range)
        guard lines.count == 1, stored.status == 200, Self.isHeld(request, stored, head) else { return }
        let members = FieldMembers(of: lines[0]).prefix(2).map(\.self)
        guard members.count == 1, members[0].prefix(6).equalsIgnoringCase("bytes=") else { return }
        let bounds = members[0].dropFirst(6)
        guard let dash = bounds.firstIndex(of: UInt8(ascii: "-")) else { return }
        guard let range = Self.range(bounds[..<dash], bounds[(dash + 1)...], count: count) else { return }
        self = range.isEmpty ? .unsatisfiable : .part(range)
    }

    /// nil if the text is not a range; empty if the range lies outside of the content.
    private static func range(_ first: ArraySlice<UInt8>, _ last: ArraySlice<UInt8>, count: Int) -> Range<Int>? {
        if first.isEmpty {
            guard let suffix = number(last) else { return nil }
            return max(0, count - suffix)..<count
        }
        guard let start = number(first) else { return nil }
        if last.isEmpty { return min(start, count)..<count }
        guard let end = number(last), end >= start else { return nil }
        return start < count ? start..<min(end + 1, count) : 0..<0
    }

    private static func number(_ text: ArraySlice<UInt8>) -> Int? { DeltaSeconds.parse(text).map { Int($0) } }

    /// Evaluates If-Range (RFC 9110 §13.1.5). Only a strong tag or the exact date matches.
    private static func isHeld(_ request: Fields, _ stored: StoredMetadata, _ head: Span<UInt8>) -> Bool {
        guard let condition = request.first(.ifRange) else { return true }
        if condition.first == 0x22 { return Validation.slice(head, stored.etag).map { $0[...] == condition } ?? false }
        guard condition.first != UInt8(ascii: "W") else { return false }
        guard let own = Validation.slice(head, stored.lastModified), own[...] == condition,
            let modified = HTTPDate.parse(condition, now: stored.date.seconds)
        else { return false }
        // §8.8.2.2: a Last-Modified within a minute of Date may apply to two versions.
        return stored.date.seconds - modified >= 60
    }
}

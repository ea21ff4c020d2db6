// Response fields that concern one moment, one exchange or one client. The client that caused the fetch receives them, but they are not
// stored. RFC 9111 §3.1 requires all fields to be stored, so `strict` removes only those with the upstream's addresses.

import HTTPCore

enum MomentaryFields {
    private static let known: KnownFieldSet = [.clearSiteData, .refresh, .serverTiming]
    /// Rate limit fields, in the spellings of public APIs.
    private static let beginnings: [StaticString] = ["ratelimit", "x-ratelimit-", "x-rate-limit-"]

    /// - Parameter status: Retry-After is kept with an error, because it belongs to the error.
    static func remove(from fields: inout Fields, _ status: Status) {
        var found: Set<Int> = []
        for (index, entry) in fields.entries.enumerated() where isMomentary(entry, fields, status) { found.insert(index) }
        guard !found.isEmpty else { return }
        fields = Fields(bytes: fields.bytes, entries: fields.entries.enumerated().filter { !found.contains($0.offset) }.map(\.element))
    }

    private static func isMomentary(_ entry: Fields.Entry, _ fields: Fields, _ status: Status) -> Bool {
        if let field = entry.known { return known.contains(field) || field == .retryAfter && status.isSuccessful }
        let name = fields.bytes[entry.nameRange]
        return beginnings.contains { name.prefix($0.utf8CodeUnitCount).equalsIgnoringCase($0) }
    }
}

// Response fields that speak of one moment, one exchange or one client: they go to the client whose request brought them, and are not stored. By the letter
// of RFC 9111 §3.1 all fields are; so in strict mode only those of the upstream's own address are left out.

import HTTPCore

enum MomentaryFields {
    private static let known: KnownFieldSet = [.clearSiteData, .refresh, .serverTiming]
    /// Counts of requests that are left, in the spellings of public APIs.
    private static let beginnings: [StaticString] = ["ratelimit", "x-ratelimit-", "x-rate-limit-"]

    /// - Parameter status: a pause that an error asks for belongs to the error.
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

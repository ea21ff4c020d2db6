// Tests that the cost of each field grammar is linear in the length of the field. Measured in CPU instructions, since times vary on shared
// machines. Skipped if the kernel does not permit counting.

import CInstructions
import Glibc
import HTTPCore
import TestSupport
import Testing

@testable import CachePolicy

/// A field of any length, and its parser.
struct FieldCost: CustomTestStringConvertible, Sendable {
    let testDescription: String
    /// A field line with this number of members.
    let line: @Sendable (Int) -> String
    let read: @Sendable (Fields) -> Void
    init(
        _ name: String, _ line: @escaping @Sendable (Int) -> String, _ read: @escaping @Sendable (Fields) -> Void
    ) {
        (testDescription, self.line, self.read) = (name, line, read)
    }

    static func list(
        _ start: String, _ separator: String = ",", end: String = "", _ member: @escaping @Sendable (Int) -> String
    ) -> @Sendable (Int) -> String {
        { count in start + (0..<count).map(member).joined(separator: separator) + end }
    }
}

private enum Instructions {
    /// Only tests whether counters are available. A counter belongs to one thread, so each measurement opens another.
    static let areCounted = cinstructions_open() >= 0
}

@Suite("Cost of long fields", .enabled(if: Instructions.areCounted, "the kernel counts no instructions here"))
struct LinearCostTests {
    private static let settings = CachePolicySettings()
    private static let kept: (bytes: [UInt8], metadata: StoredMetadata) = stored("ETag: \"own\"\nContent-Type: application/json")

    private static let costs: [FieldCost] = [
        FieldCost("Cache-Control of a response", FieldCost.list("Cache-Control: ") { "x\($0)" }) { _ = ResponseCacheControl($0) },
        FieldCost("no-cache with names", FieldCost.list("Cache-Control: no-cache=\"", end: "\"") { "f\($0)" }) {
            _ = ResponseCacheControl($0)
        },
        FieldCost("Cache-Control of a request", FieldCost.list("Cache-Control: ") { "x\($0)" }) { _ = RequestCacheControl($0) },
        FieldCost("Pragma", FieldCost.list("Pragma: ") { "x\($0)" }) { _ = RequestCacheControl($0) },
        FieldCost("a targeted field", FieldCost.list("CDN-Cache-Control: ") { "k\($0)" }) { targeted($0) },
        FieldCost("parameters of a targeted field", FieldCost.list("CDN-Cache-Control: ", ";") { "k\($0)" }) { targeted($0) },
        FieldCost("No-Vary-Search", FieldCost.list("No-Vary-Search: params=(", " ", end: ")") { "\"k\($0)\"" }) {
            _ = SearchVariance($0)
        },
        FieldCost("Cache-Groups", FieldCost.list("Cache-Groups: ") { "\"g\($0)\"" }) {
            _ = CacheTags.groups(of: $0, named: "cache-groups")
        },
        FieldCost("Cache-Group-Invalidation", FieldCost.list("Cache-Group-Invalidation: ") { "\"g\($0)\"" }) {
            _ = CacheTags.firstGroups(of: $0, named: "cache-group-invalidation")
        },
        FieldCost("Surrogate-Key", FieldCost.list("Surrogate-Key: ", " ") { "k\($0)" }) { _ = CacheTags.tags(of: $0) },
        FieldCost("Vary", FieldCost.list("Vary: ") { "f\($0)" }) { fields in
            _ = SelectingFields.names(response: fields, request: Fields(), settings: settings)
        },
        FieldCost("a presented list", FieldCost.list("Accept-Language: ") { "l\($0);q=0.5" }) { fields in
            _ = SelectingFields.values(of: [Array("accept-language".utf8)[...]], in: fields)
        },
        FieldCost("If-None-Match", FieldCost.list("If-None-Match: ") { "\"t\($0)\"" }) { fields in
            _ = Preconditions.isNotModified(fields, stored: kept.metadata, head: kept.bytes.span)
        },
        FieldCost("Range", FieldCost.list("Range: bytes=") { "\($0)-\($0)" }) { fields in
            _ = RangeRequest(fields, count: 10, stored: kept.metadata, head: kept.bytes.span)
        },
        FieldCost("Cookie", FieldCost.list("Cookie: ", "; ") { "c\($0 % 7)-\($0)=\($0)" }) { fields in
            var parts: [UInt8] = []
            CredentialCookies(settings).append(of: fields, to: &parts)
        },
        FieldCost("Set-Cookie, many of them", FieldCost.list("", "\n") { "Set-Cookie: c\($0)=1; Path=/" }) { fields in
            _ = ClientCookies.after([], fields, path: Array("/".utf8)[...], now: 0, CredentialCookies(settings))
        },
        FieldCost("attributes of one Set-Cookie", FieldCost.list("Set-Cookie: c=1; ", "; ") { "a\($0)=1" }) { fields in
            _ = ClientCookies.after([], fields, path: Array("/".utf8)[...], now: 0, CredentialCookies(settings))
        },
        FieldCost("Content-Encoding", FieldCost.list("Content-Encoding: ") { "c\($0)" }) { _ = ContentCoding($0) },
        FieldCost("Accept-Encoding", FieldCost.list("Content-Encoding: c1,c2,c3\nAccept-Encoding: ") { "c\($0)" }) {
            _ = ContentCoding.allows($0, $0)
        },
        FieldCost("codings beside Accept-Encoding", FieldCost.list("Accept-Encoding: c1,c2,c3\nContent-Encoding: ") { "c\($0 % 3 + 1)" }) {
            _ = ContentCoding.allows($0, $0)
        },
        FieldCost("Connection", FieldCost.list("Connection: ") { "f\($0)" }) { _ = $0.removingHopByHop() },
        FieldCost("Age", FieldCost.list("Age: ") { "\($0)" }) { _ = Freshness.ageValue($0) },
        FieldCost("Link and other lists", FieldCost.list("X-List: ") { "\"a,\($0)\"" }) { fields in
            _ = fields.all(named: Array("x-list".utf8).span).flatMap { FieldLists.members(of: $0) }
        },
    ]

    private static func targeted(_ fields: Fields) {
        _ = ResponseCacheControl(fields, targeted: settings.targetedFields.filter { $0 == Array("cdn-cache-control".utf8) })
    }

    /// The minimum of several runs, because the first run includes one-time costs.
    private func instructions(_ cost: FieldCost, _ count: Int) -> UInt64 {
        let fields = fields(cost.line(count))
        let counter = cinstructions_open()
        defer { close(counter) }
        var least = UInt64.max
        for _ in 0..<3 {
            let before = cinstructions_read(counter)
            cost.read(fields)
            least = min(least, cinstructions_read(counter) - before)
        }
        return least
    }

    @Test("the cost of parsing a field grows about linearly with its length", .slow, arguments: costs)
    func isLinear(_ cost: FieldCost) {
        // Within the limit of parsed lists, and beyond it. Sorting costs slightly more than linear; quadratic cost would be sixteenfold.
        for count in [30, 1_500] {
            let (short, long) = (instructions(cost, count), instructions(cost, 4 * count))
            #expect(short > 0 && long < 8 * short, "\(count): \(short), four times as long: \(long)")
        }
    }
}

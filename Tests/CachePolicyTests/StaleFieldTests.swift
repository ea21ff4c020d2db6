// Table tests of Cistern-Stale: its form, and which values of an upstream are repeated.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Cistern-Stale")
struct StaleFieldTests {
    private static func text(_ append: (inout [UInt8]) -> Void) -> String {
        var lines: [UInt8] = []
        append(&lines)
        return String(decoding: lines, as: UTF8.self)
    }

    @Test("the field is an integer with a reason, and is exposed to scripts of other origins")
    func form() {
        #expect(
            Self.text { StaleField.append(age: 312, reason: "connection_refused", isExposed: false, to: &$0) }
                == "Cistern-Stale: 312; reason=connection_refused\r\n")
        #expect(
            Self.text { StaleField.append(age: -1, reason: StaleField.accepted, isExposed: true, to: &$0) }
                == "Cistern-Stale: 0; reason=max_stale\r\nAccess-Control-Expose-Headers: Cistern-Stale\r\n")
    }

    @Test(
        "only a well-formed value that repeats Age is accepted from an upstream",
        arguments: [
            ("Age: 7\nCistern-Stale: 7; reason=slow", true), ("Age: 7\ncistern-stale: 7; reason=status_503", true),
            ("Cistern-Stale: 7; reason=slow", false), ("Age: 8\nCistern-Stale: 7; reason=slow", false),
            ("Age: 7\nCistern-Stale: 77; reason=slow", false), ("Age: 7\nCistern-Stale: 7", false),
            ("Age: 7\nCistern-Stale: 7; reason=", false), ("Age: 7\nCistern-Stale: 7; reason=Slow", false),
            ("Age: 7\nCistern-Stale: 7;reason=slow", false), ("Age: 7\nCistern-Stale: 7; reason=slow; a=b", false),
            ("Age: 7\nCistern-Stale: 7; reason=\"slow\"", false), ("Age: x\nCistern-Stale: x; reason=slow", false),
            ("Age:\nCistern-Stale: ; reason=slow", false), ("Age: 7\nAge: 7\nCistern-Stale: 7; reason=slow", false),
            ("Age: 7\nCistern-Stale: 7; reason=slow\nCistern-Stale: 7; reason=slow", false),
            ("Age: 7\nCistern-Stale: 7; reason=\(String(repeating: "a", count: 65))", false),
        ])
    func ofUpstream(_ lines: String, _ isAccepted: Bool) {
        let value = StaleField.ofUpstream(fields(lines))
        #expect((value != nil) == isAccepted)
        if isAccepted { #expect(value.map { lines.hasSuffix(String(decoding: $0, as: UTF8.self)) } == true) }
    }

    @Test("the field of an upstream is not stored, neither with a response nor with its confirmation")
    func notStored() throws {
        let first = stored("Content-Type: application/json\nETag: \"a\"\nAge: 7\nCistern-Stale: 7; reason=slow")
        let confirmation = ResponseHead(status: 304, fields: fields("ETag: \"a\"\nAge: 9\nCistern-Stale: 9; reason=slow"))
        let second = Validation.freshened(
            first.metadata, head: first.bytes.span, contentBytes: 7, by: confirmation, recency(noon), settings: CachePolicySettings())
        for head in [first.bytes, try #require(second?.bytes)] {
            #expect(!String(decoding: head, as: UTF8.self).lowercased().contains("stale"))
        }
        var metadata = first.metadata
        let former = ResponseHead(status: 200, fields: fields("A: b\nCistern-Stale: 7; reason=slow"))
        let kept = try #require(StoredHead.withoutUnstoredFields(former, &metadata, settings: CachePolicySettings()))
        #expect(!String(decoding: kept, as: UTF8.self).contains("Stale"))
    }
}

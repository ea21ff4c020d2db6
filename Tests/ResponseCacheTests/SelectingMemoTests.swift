// Tests that remembered values of selecting fields equal computed ones.

import CachePolicy
import HTTPCore
import Testing

@testable import ResponseCache

@Suite("Remembered selecting fields")
struct SelectingMemoTests {
    @Test("equal values are computed once, different ones separately, and they are never mixed up")
    func memo() {
        let memo = SelectingMemo()
        var made = 0
        func values(_ names: String, _ fields: [(String, String)]) -> [UInt8] {
            var request = Fields()
            for (name, value) in fields { request.append(name: name, value: value) }
            let marker = Array(names.utf8)
            return memo.values(for: marker.span, in: request) { names in
                made += 1
                return SelectingFields.values(of: names, in: request)
            }.values
        }
        let german = values("a\naccept-language", [("Accept-Language", "de"), ("A", "1")])
        #expect(values("a\naccept-language", [("accept-language", "de"), ("B", "2"), ("A", "1")]) == german)
        #expect(made == 1)
        let others = [
            values("a\naccept-language", [("Accept-Language", "en"), ("A", "1")]), values("a\naccept-language", [("A", "1")]),
            values("a\naccept-language", [("A", "de"), ("Accept-Language", "1")]), values("a", [("Accept-Language", "de"), ("A", "1")]),
            values("a\naccept-language", [("Accept-Language", "de"), ("A", "")]),
        ]
        #expect(Set(others + [german]).count == 6)
        #expect(made == 6)
        // Too long to be remembered.
        let long = String(repeating: "x", count: 600)
        #expect(values("a", [("A", long)]) == values("a", [("A", long)]))
        #expect(made == 8)
        #expect(values("a\naccept-language", [("Accept-Language", "de"), ("A", "1")]) == german)
    }
}

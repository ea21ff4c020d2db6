// The checker, the reader and the canonical form agree about validity and meaning of JSON texts. The checker's result does not depend on
// how a text is split.

import JSON

enum JSONProperty {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let verdict = JSONTextChecker.check(bytes.span)
        let isValid = verdict == .valid || verdict == .validScalar
        for split in splits(of: bytes.count) {
            var checker = JSONTextChecker()
            let goesOn = checker.consume(bytes.span.extracting(0..<split)) && checker.consume(bytes.span.extracting(split...))
            let found = goesOn ? checker.finish() : .invalid
            try expect(found == verdict, "split at \(split) it is \(found), whole it is \(verdict)")
        }
        let value = JSONValue(bytes)
        try expect((value != nil) == isValid, "the checker finds \(verdict), and the reader \(value == nil ? "nothing" : "a value")")
        if let value { try checkWritten(value) }
        let canonical = CanonicalJSON.make(bytes.span)
        guard let canonical else { return }
        try expect(isValid, "invalid JSON has a canonical form")
        try expect(JSONTextChecker.check(canonical.span) == verdict, "the canonical form is invalid or of another kind")
        try expect(CanonicalJSON.make(canonical.span) == canonical, "the canonical form is not idempotent")
        // White space around the text makes no difference.
        try expect(CanonicalJSON.make(([0x20, 0x0a] + bytes + [0x09]).span) == canonical, "white space changes the canonical form")
    }

    private static func checkWritten(_ value: JSONValue) throws(Violation) {
        for depth in [nil, 0] {
            let text = value.serialized(depth: depth)
            guard let again = JSONValue(text) else { throw Violation(description: "a parsed value is serialized to invalid JSON") }
            try expect(again.serialized(depth: depth) == text, "serialized JSON is parsed differently")
        }
    }
}

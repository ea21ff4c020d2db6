// Tests of ranges of JSON values, and of the removal of values.

import JSON
import TestSupport
import Testing

@Suite("Ranges of JSON values")
struct JSONValueRangeTests {
    struct Row: CustomTestStringConvertible {
        let text: String
        let pointers: [String]
        let rest: String

        var testDescription: String { "\(text) without \(pointers)" }
    }

    @Test(
        "removed values leave valid JSON",
        arguments: [
            Row(text: #"{"a":1,"b":2,"c":3}"#, pointers: ["/a"], rest: #"{"b":2,"c":3}"#),
            Row(text: #"{"a":1,"b":2,"c":3}"#, pointers: ["/b"], rest: #"{"a":1,"c":3}"#),
            Row(text: #"{"a":1,"b":2,"c":3}"#, pointers: ["/c"], rest: #"{"a":1,"b":2}"#),
            Row(text: #"{"a":1,"b":2,"c":3}"#, pointers: ["/c", "/b"], rest: #"{"a":1}"#),
            Row(text: #"{"a":1,"b":2,"c":3}"#, pointers: ["/a", "/b", "/c"], rest: "{}"),
            Row(text: "{ \"a\" : {\"x\":[1]} ,\n \"b\":2 }", pointers: ["/b"], rest: "{ \"a\" : {\"x\":[1]}  }"),
            Row(text: #"{"a":{"x":1,"y":2}}"#, pointers: ["/a/x", "/a"], rest: "{}"),
            Row(text: #"{"a":{"x":1,"y":2}}"#, pointers: ["/a/x", "/a/y"], rest: #"{"a":{}}"#),
            Row(text: #"["a",{"id":7},"c"]"#, pointers: ["/1"], rest: #"["a","c"]"#),
            Row(text: #"["a",{"id":7},"c"]"#, pointers: ["/1/id", "/2"], rest: #"["a",{}]"#),
            Row(text: #"{"a/b":1,"m~n":2,"\u0061":3}"#, pointers: ["/a~1b", "/m~0n", "/a"], rest: "{}"),
            Row(text: #"{"s":"a,}\"","b":1}"#, pointers: ["/s"], rest: #"{"b":1}"#),
            Row(text: #"{"a":1,"a":{"b":2}}"#, pointers: ["/a/b"], rest: #"{"a":1,"a":{"b":2}}"#),
            Row(text: #"{"a":1}"#, pointers: ["/b", "/a/0", "/0"], rest: #"{"a":1}"#),
            Row(text: "7", pointers: ["/a"], rest: "7"),
        ])
    func removing(row: Row) throws {
        let pointers = try row.pointers.map { try #require(JSONPointer($0)) }
        #expect(String(decoding: JSONPointer.removing(pointers, from: Array(row.text.utf8)), as: UTF8.self) == row.rest)
    }

    @Test("in random texts, the text at a position is the value, and a removed value is gone while others stay")
    func random() {
        let steps = ["a", "b", "ab", "ä", "0", "1", "2", "~1"]
        RandomSchedules.run(3_000) {
            RandomJSON($0)
        } end: { random in
            let text = random.text()
            guard let value = JSONValue(text) else { throw ScheduleFailure("no JSON") }
            let path = "/" + (0...random.below(3)).map { _ in steps[random.below(steps.count)] }.joined(separator: "/")
            let pointer = try #require(JSONPointer(path))
            let range = pointer.range(in: text.span)
            try demand((range != nil) == JSONPointer.found([pointer], in: text.span)[0], "\(path) is found once")
            guard let range else { return }
            let part = JSONValue(Array(text[range.value]))
            try demand(part != nil && part == pointer.value(in: value), "\(path) has another value")
            let rest = JSONPointer.removing([pointer], from: text)
            guard let left = JSONValue(rest) else { throw ScheduleFailure("invalid without \(path)") }
            try demand(Self.count(left) == Self.count(value) - Self.count(part ?? .null), "without \(path), something else is missing")
        }
    }

    /// Number of values in a tree.
    private static func count(_ value: JSONValue) -> Int {
        let inner = value.array ?? value.members?.map(\.value) ?? []
        return inner.reduce(1) { $0 + count($1) }
    }
}

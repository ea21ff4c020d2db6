// Tests of JSON Pointers (RFC 6901), several evaluated in one pass.

import JSON
import TestSupport
import Testing

@Suite("JSON Pointers (RFC 6901)")
struct JSONPointerTests {
    static let text = """
        {"foo": ["bar", "baz", {"x": null}], "": 0, "a/b": 1, "c%d": 2, "m~n": 8, "k\\"l": 6, " ": 7, "ä": {"\\u00f6": [[], {}]},
         "deep": {"list": [1, [2, {"skip": "]}"}], {"id": "\\ud83d\\ude00"}]}, "last": true, "foo": {"never": 1}, "f\\u006fo2": 1}
        """
    static let there = [
        "", "/foo", "/foo/0", "/foo/2/x", "/", "/a~1b", "/c%d", "/m~0n", "/k\"l", "/ ", "/ä/ö/1", "/deep/list/2/id", "/last", "/foo2",
    ]
    static let missing = [
        "/bar", "/foo/3", "/foo/-", "/foo/01", "/foo/x", "/foo/0/0", "/last/x", "/fo", "/fooo", "/ä/ö/2", "/deep/list/2/id/x",
        // The first of several members with one name counts.
        "/foo/never",
    ]
    static let some = (there + missing).compactMap(JSONPointer.init)

    private func found(_ pointers: [String], _ text: String) throws -> [Bool] {
        JSONPointer.found(try pointers.map { try #require(JSONPointer($0)) }, in: Array(text.utf8).span)
    }

    @Test("a pointer to an existing value is found", arguments: there)
    func present(pointer: String) throws { #expect(try found([pointer], Self.text) == [true]) }

    @Test("a pointer to a missing value is not found", arguments: missing)
    func absent(pointer: String) throws { #expect(try found([pointer], Self.text) == [false]) }

    @Test("several pointers are found in one pass, in any order")
    func together() throws {
        let all = (Self.there.map { ($0, true) } + Self.missing.map { ($0, false) }).shuffled()
        #expect(try found(all.map(\.0) + [], Self.text) == all.map(\.1))
        #expect(try found([], Self.text) == [])
    }

    @Test("in random texts the same values are found as in the parsed tree")
    func againstTree() {
        let steps = ["a", "b", "ab", "ä", "", "0", "1", "2", "~1", "q\""]
        RandomSchedules.run(3_000) {
            RandomJSON($0)
        } end: { random in
            let text = random.text()
            let words = String(decoding: text, as: UTF8.self)
            guard let value = JSONValue(text) else { throw ScheduleFailure("no JSON: \(words)") }
            let paths = (0..<4).map { _ in (0..<random.below(4)).map { _ in steps[random.below(steps.count)] } }
            let found = try found(paths.map { path in path.map { "/" + $0 }.joined() }, words)
            try demand(found == paths.map { Self.leads($0, in: value) }, "\(words) \(paths)")
        }
    }

    private static func leads(_ path: [String], in value: JSONValue) -> Bool {
        guard let step = path.first else { return true }
        let rest = Array(path.dropFirst())
        if let items = value.array { return Int(step).map { $0 < items.count && leads(rest, in: items[$0]) } ?? false }
        let name = step == "~1" ? "/" : step
        // Compares bytes: Swift considers strings equal that RFC 6901 §4 distinguishes.
        guard let member = value.members?.first(where: { $0.name.utf8.elementsEqual(name.utf8) }) else { return false }
        return leads(rest, in: member.value)
    }

    @Test("invalid pointers are rejected", arguments: ["a", "/~", "/~2", "a/b"])
    func refused(pointer: String) { #expect(JSONPointer(pointer) == nil) }
}

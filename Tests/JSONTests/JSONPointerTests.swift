// JSON Pointers (RFC 6901) on texts as they come.

import JSON
import Testing

@Suite("JSON Pointers (RFC 6901)")
struct JSONPointerTests {
    static let text = """
        {"foo": ["bar", "baz", {"x": null}], "": 0, "a/b": 1, "c%d": 2, "m~n": 8, "k\\"l": 6, " ": 7, "ä": {"\\u00f6": [[], {}]},
         "deep": {"list": [1, [2, {"skip": "]}"}], {"id": "\\ud83d\\ude00"}]}, "last": true}
        """

    private func exists(_ pointer: JSONPointer, _ text: String) -> Bool {
        JSONValue(Array(text.utf8)).map { pointer.exists(in: $0) } ?? false
    }

    @Test(
        "values that are there",
        arguments: [
            "", "/foo", "/foo/0", "/foo/2/x", "/", "/a~1b", "/c%d", "/m~0n", "/k\"l", "/ ", "/ä/ö/1", "/deep/list/2/id", "/last",
        ])
    func present(pointer: String) throws { #expect(exists(try #require(JSONPointer(pointer)), Self.text)) }

    @Test(
        "values that are not",
        arguments: ["/bar", "/foo/3", "/foo/-", "/foo/01", "/foo/x", "/foo/0/0", "/last/x", "/fo", "/fooo", "/ä/ö/2", "/deep/list/2/id/x"])
    func absent(pointer: String) throws { #expect(!exists(try #require(JSONPointer(pointer)), Self.text)) }

    @Test("texts that are no pointers", arguments: ["a", "/~", "/~2", "a/b"])
    func refused(pointer: String) { #expect(JSONPointer(pointer) == nil) }
}

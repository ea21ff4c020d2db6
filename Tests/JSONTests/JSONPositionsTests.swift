// Tests of the positions of array elements and of errors in a JSON text.

import JSON
import Testing

@Suite("Positions in a JSON text")
struct JSONPositionsTests {
    @Test(
        "the elements of the array at a path are found",
        arguments: [
            (#"{"log":{"a":[1],"entries":[{"x":[{}]}, 7,"s",[2],null]},"z":1}"#, [#"{"x":[{}]}"#, "7", "s", "[2]", "null"]),
            (#"{"log":{"creator":{"entries":[1]},"entries":[2]}}"#, ["2"]), (#"{"log":{"entries":[]}}"#, []),
            (#"{"log":{"entries":{"entries":[1]}}}"#, nil), (#"{"log":1,"x":{"entries":[1]}}"#, nil), (#"{"entries":[1]}"#, nil),
            (#"[{"log":{"entries":[1]}}]"#, nil), (#"{"log":[{"entries":[1]}]}"#, nil), ("7", nil), (#"{"log":{"entries":null}}"#, nil),
        ] as [(String, [String]?)])
    func elements(text: String, expected: [String]?) {
        let bytes = Array(text.utf8)
        let ranges = JSONPositions.elements(of: ["log", "entries"], in: bytes.span)
        #expect(ranges?.map { String(decoding: bytes[$0], as: UTF8.self) } == expected)
    }

    @Test(
        "the line and column of the first invalid byte are found",
        arguments: [
            ("{}", nil), ("{\n  \"a\": tru,\n}", [2, 11]), ("", [1, 1]), ("{\"a\":\n", [2, 1]), ("[1,]", [1, 4]),
            (String(repeating: "[1]\n", count: 1), nil), ("[" + String(repeating: "\"\n\"", count: 1), [1, 3]),
            ("[\n" + String(repeating: "1,\n", count: 3_000) + "x]", [3_002, 1]),
        ] as [(String, [Int]?)])
    func mistake(text: String, place: [Int]?) {
        let bytes = Array(text.utf8)
        #expect(JSONPositions.mistake(in: bytes.span).map { [$0.line, $0.column] } == place)
    }
}

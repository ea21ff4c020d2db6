// Tests of the ways in which servers may interpret a path.

import HTTPCore
import Testing

@Suite("Possible readings of a path")
struct PathReadingsTests {
    /// The readings as paths; a slash within a segment is shown as `%2f`.
    private static func texts(_ target: String) -> [String]? {
        PathReadings(Array(target.utf8)[...])?.all.map { segments in
            segments.map { "/" + String(decoding: $0, as: UTF8.self).replacing("/", with: "%2f") }.joined()
        }
    }

    @Test(
        "an unambiguous path has one reading",
        arguments: ["/", "/a/b/", "/a.b/c..", "/a?x=%2f&y=//..;", "*", "", "/a-b_c~d!@:"])
    func plain(_ target: String) {
        #expect(PathReadings(Array(target.utf8)[...]) == nil)
    }

    @Test(
        "each sequence of normalization steps yields one reading, without duplicates",
        arguments: [
            ("/%69nternal", ["/internal"]), ("/.well-known/a", ["/.well-known/a"]), ("/%zz/%", ["/%zz/%"]),
            ("/a%2Fb", ["/a%2fb", "/a/b"]), ("/a\\b", ["/a\\b", "/a/b"]), ("/a%5cb", ["/a\\b", "/a/b"]),
            ("/a;x=1/b", ["/a;x=1/b", "/a/b"]),
            ("/a%3bx/b", ["/a;x/b", "/a/b"]), ("//a", ["//a", "/a", "/"]), ("/a/./b", ["/a/./b", "/a/b"]),
            ("/a/%2e%2e/b", ["/a/../b", "/b"]),
            ("/a/..", ["/a/..", "/"]), ("/a/b/..", ["/a/b/..", "/a/", "/a"]), ("/a%00/b", ["/a\0/b", "/a", "/a/b"]),
            ("/%2569", ["/%69", "/i"]), ("/%%36%39", ["/%69", "/i"]), ("/%252569", ["/%2569", "/%69", "/i"]),
            ("/a%20b%2520c", ["/a b%20c", "/a b c"]), ("/100%25", ["/100%"]), ("/50%off", ["/50%off"]), ("/%25zz", ["/%zz"]),
            ("/..%252fa", ["/..%2fa", "/..%2fa", "/../a", "/a"]), ("/b/%252e%252e/a", ["/b/%2e%2e/a", "/b/../a", "/a"]),
            ("/a%09b", ["/a\tb", "/a", "/ab"]), ("/%u0061", ["/%u0061", "/a"]), ("/%u00e4", ["/%u00e4"]),
            ("/a/..;x/b", ["/a/..;x/b", "/a/../b", "/b"]),
            ("/z/a%5cb/../../i", ["/z/a\\b/../../i", "/z/a/b/../../i", "/i", "/z/i"]),
            ("/a//../b", ["/a//../b", "/a/../b", "/a/b", "/b"]), ("//x/a", ["//x/a", "/x/a", "/a"]), ("/o//x/a", ["/o//x/a", "/o/x/a"]),
            ("///x/a", ["///x/a", "/x/a", "/a"]), ("/%5cx/a", ["/\\x/a", "//x/a", "/x/a", "/a"]),
        ])
    func readings(_ target: String, _ expected: [String]) {
        #expect(Self.texts(target).map(Set.init) == Set(expected), "\(target)")
        #expect(Self.texts(target)?.count == expected.count)
    }

    @Test(
        "paths that may lead above the root are detected",
        arguments: [
            ("/../a", true), ("/a/../../b", true), ("/%2e%2e/a", true), ("/..;/a", true), ("/..\\a", true), ("/..%2fa", true),
            ("/..%5ca", true),
            ("//../a", true), ("/a/;/../../b", true), ("/..%3bx/a", true), ("/a/../b", false), ("/a%2f../b", false), ("/...//a", false),
            ("/a%20b", false), ("/%252e%252e/a", true), ("/b/%252e%252e/a", false), ("/..%252fa", true), ("/..%%32%66a", true),
            ("/%c0%ae%c0%ae/a", true), ("/%e0%80%ae./a", true), ("/%f0%80%80%ae./a", true), ("/.%09./a", true), ("/%u002e%u002e/a", true),
            ("/a%20b%2520c", false), ("/100%25", false), ("/50%", false), ("/%e4%ff", false), ("/%e0%a4%ae%e0%a4%ae/%f0%9f%98%80", false),
        ])
    func root(_ target: String, _ leaves: Bool) {
        #expect(PathReadings(Array(target.utf8)[...])?.mayLeaveRoot == leaves)
    }

    @Test(
        "control characters, double encodings, stray percent signs and invalid UTF-8 are detected",
        arguments: [
            ("/a%0a", true), ("/a%7F", true), ("/a%00b", true), ("/%2569", true), ("/a%252e", true), ("/100%25", false),
            ("/100%25z1", false), ("/a%20b", false), ("/%zz", true), ("/a%", true), ("/a%2", true), ("/%25%36%39", true),
            ("/%%36%39", true), ("/%u0041", true), ("/%c0%ae", true), ("/%C1%81", true), ("/%f5", true), ("/%ff", true), ("/%e4", false),
            ("/%e0%80%ae", true), ("/%f0%80%80%ae", true), ("/%e0%a4%ae", false), ("/%f0%9f%98%80", false), ("/caf%C3%A9", false),
        ])
    func opaque(_ target: String, _ isOpaque: Bool) {
        #expect(PathReadings(Array(target.utf8)[...])?.isOpaque == isOpaque)
    }

    @Test("a path of any length has at most sixteen readings, and omitted readings are reported")
    func bounded() throws {
        for part in ["/a%2f..\\..;x//%2e%2e/", "/;", "%2f", "/./", "%5c..", "/%20", "%25", "%2525;%00", "%c0%ae%u002f", "%"] {
            let target = "/" + String(repeating: part, count: 8_000 / part.utf8.count)
            let readings = try #require(PathReadings(Array(target.utf8)[...]))
            #expect(readings.all.count <= PathReadings.limit)
        }
        let odd = try #require(PathReadings(Array("/a%2f..\\..;x//%2e%2e/b;c/../d%5c../e".utf8)[...]))
        #expect(odd.isIncomplete && odd.mayLeaveRoot)
        for (start, count, isIncomplete, mayLeaveRoot) in [
            ("/img/https%3A%2F%2Fa.example/", 1_500, false, false), ("/img/https%3A%2F%2Fa.example/", 8_000, true, false),
            ("/img/%2F.%2e", 8_000, true, true), ("/img/%252F", 8_000, true, true), ("/img/%20", 8_000, false, false),
            (String(repeating: "/a/", count: 100), 10, false, false), (String(repeating: "/a/", count: 1_000), 10, true, false),
        ] {
            let long = try #require(PathReadings(Array((start + String(repeating: "x", count: count)).utf8)[...]))
            #expect(long.isIncomplete == isIncomplete && long.mayLeaveRoot == mayLeaveRoot, "\(start) \(count)")
        }
    }
}

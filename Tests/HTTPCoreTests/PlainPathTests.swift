// Paths as upstreams may read them.

import HTTPCore
import Testing

@Suite("Plain paths")
struct PlainPathTests {
    @Test(
        "what many take for the same path is spelled in one way",
        arguments: [
            ("/internal/a", nil), ("/", nil), ("/a/b/", nil), ("/a.b/..c", "/a.b/..c"), ("/a?x=%2f", nil), ("/%69nternal/a", "/internal/a"),
            ("//internal//a", "/internal/a"), ("/./internal/./a", "/internal/a"), ("/x/../internal/a", "/internal/a"),
            ("/../../internal/a", "/internal/a"), ("/internal;x=1/a;y", "/internal/a"), ("/internal%2fa", "/internal/a"),
            ("/internal%2Fa/", "/internal/a/"), ("/internal\\a", "/internal/a"), ("/%2e%2e/internal/a", "/internal/a"),
            ("/%zz/%", "/%zz/%"),
            ("/%2569nternal", "/%69nternal"), ("/;/", "/"), ("//", "/"),
        ] as [(String, String?)])
    func made(_ target: String, _ plain: String?) {
        #expect(PlainPath.make(of: Array(target.utf8)[...]).map { String(decoding: $0, as: UTF8.self) } == plain)
    }
}

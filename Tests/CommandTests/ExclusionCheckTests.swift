// Tests the warnings of `cistern check` about routes with `cache: off`.

import CacheStore
import TestSupport
import Testing

@Suite("cistern check of routes with cache: off")
struct ExclusionCheckTests {
    private let temporary = TestTools.temporaryDirectory()

    private func warnings(_ path: String) throws -> [String] {
        let file = temporary.path + "/cistern.yaml"
        try TestTools.write("upstream: {url: http://127.0.0.1:1}\nroutes: [{name: a, path: \(path), cache: off}]", to: file)
        let outcome = try CommandLineTool.run("check --config \(file)")
        #expect(outcome.status == 0, "\(outcome.text)")
        return outcome.lines.filter { $0.hasPrefix("warning: route ") }
    }

    @Test(
        "a path with cache: off causes a warning if the path with a final slash, or without it, uses the cache",
        arguments: [
            ("/pay", "/pay/", "/pay/**"), ("/pay/", "/pay", "/pay/**"), ("/pay/*", "/pay/*/", "/pay/*/**"), ("/pay/**", nil, ""),
            ("/", nil, ""), ("/pay, cache: off}, {name: b, path: /pay/", nil, ""),
        ] as [(String, String?, String)])
    func excludedSibling(_ row: (path: String, other: String?, proposal: String)) throws {
        let warnings = try warnings(row.path)
        #expect(warnings.count == (row.other == nil ? 0 : 1), "\(warnings)")
        guard let other = row.other, let first = warnings.first else { return }
        #expect(first.contains("but \(other) uses the cache") && first.contains("set path: \(row.proposal), which"), "\(first)")
        #expect(try self.warnings(row.proposal).isEmpty)
    }
}

// `cistern check --print` and `--schema`, through the real binary.

import CacheStore
import TestSupport
import Testing

@Suite("check --print", .slow)
struct CheckPrintTests {
    private func printed(_ file: String, _ more: String = "", environment: String = "") throws -> CommandLineTool.Outcome {
        let directory = TestTools.temporaryDirectory()
        let path = directory.path + "/f.yaml"
        try TestTools.write(file, to: path)
        defer { withExtendedLifetime(directory) {} }
        return try CommandLineTool.run("check --print --config \(path) \(more)", environment: environment)
    }

    @Test("--print shows each effective setting with its origin; invalid settings still exit with 78")
    func printed() throws {
        let outcome = try printed("upstream:\n  url: http://a.example\n", "--set shards=2", environment: "CISTERN_LOG_LEVEL=debug")
        #expect(outcome.status == 0 && outcome.text.hasPrefix("upstream:\n  url: \"http://a.example\"  # "))
        #expect(outcome.text.contains("f.yaml:2\n") && outcome.text.contains("shards: 2  # command line\n"))
        #expect(outcome.text.contains("level: debug  # environment, CISTERN_LOG_LEVEL\n") && !outcome.text.contains("are good"))
        #expect(try printed("upstream: {url: x}\n").status == 78)
        #expect(try CommandLineTool.run("check --schema").text.hasPrefix("{\n  \"$schema\""))
    }
}

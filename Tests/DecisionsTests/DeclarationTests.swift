// Tests that Sources/README.md quotes the two most important declarations as they are in the code.

import Glibc
import Testing

@Suite("Documentation of the decisions")
struct DeclarationTests {
    private static let root = String(#filePath.dropLast("Tests/DecisionsTests/DeclarationTests.swift".count))

    private static func read(_ path: String) -> String? {
        guard let file = fopen(root + path, "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    @Test(
        "Sources/README.md contains the declaration of each decision",
        arguments: [
            ("RequestDecision", "Sources/Decisions/RequestDecision.swift"), ("OutcomeDecision", "Sources/Decisions/OutcomeDecision.swift"),
        ])
    func shown(name: String, path: String) throws {
        let source = try #require(Self.read(path))
        let start = try #require(source.firstRange(of: "public enum \(name)")).lowerBound
        let end = try #require(source[start...].firstRange(of: "\n}\n")).upperBound
        let page = try #require(Self.read("Sources/README.md"))
        #expect(page.contains("```swift\n" + source[start..<end] + "```\n"))
    }

    @Test("every file named in Sources/README.md exists")
    func files() throws {
        let page = try #require(Self.read("Sources/README.md"))
        let start = try #require(page.firstRange(of: "## One miss, followed")).lowerBound
        let end = try #require(page[start...].firstRange(of: "## Modules")).lowerBound
        let names = page[start..<end].split(separator: "`").filter { $0.hasSuffix(".swift") }
        #expect(names.count > 10)
        for name in names { #expect(access(Self.root + "Sources/\(name)", R_OK) == 0, "\(name)") }
    }
}

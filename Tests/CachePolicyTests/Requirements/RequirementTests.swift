// Makes Sources/CachePolicy/README.md of the rows, and holds the rows against the sources and the tests. With CISTERN_WRITE_REQUIREMENTS set
// the page is written instead of compared.

import Glibc
import Testing

@Suite("Requirements of RFC 9111")
struct RequirementTests {
    private static let root = String(#filePath.dropLast("Tests/CachePolicyTests/Requirements/RequirementTests.swift".count))
    private static let page = root + "Sources/CachePolicy/README.md"

    private static func read(_ path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = fread(&piece, 1, piece.count, file), count > 0 { bytes += piece[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static var rendered: String {
        var text = """
            # What RFC 9111 asks of a shared cache

            Made of the rows in `Tests/CachePolicyTests/Requirements`, and checked by the tests: a row whose code or test is gone fails. What is
            said to be in force under `strict` differs under `rescue` as Configuration/README.md says. All of it together is walked
            through at random beside a reference cache (`make soak`).

            | Section | Level | Requirement | Where | Shown by |
            |---|---|---|---|---|

            """
        for row in Requirement.all {
            let code = row.code.isEmpty ? "–" : "`\(row.code)`"
            let test = row.code.isEmpty ? row.test : "“\(row.test)”"
            text += "| §\(row.section) | \(row.level.rawValue) | \(row.sentence) | \(code) | \(test) |\n"
        }
        return text
    }

    @Test("the page says what the rows say")
    func page() throws {
        if getenv("CISTERN_WRITE_REQUIREMENTS") != nil {
            let file = try #require(fopen(Self.page, "w"))
            fputs(Self.rendered, file)
            fclose(file)
        }
        #expect(Self.read(Self.page) == Self.rendered, "write it anew with CISTERN_WRITE_REQUIREMENTS=1")
    }

    @Test("what the rows speak of is there")
    func references() throws {
        let suites = [
            "CachePolicyTests/RuleTests.swift", "CachePolicyTests/KeyTests.swift", "CachePolicyTests/ClauseTests.swift",
            "CachePolicyTests/StaleAndValidationTests.swift", "ReverseProxyTests/SharedCacheTests.swift",
            "CachePolicyTests/RandomWalk/RandomWalkTests.swift", "HTTPCoreTests/ContentTests.swift",
            "ReverseProxyTests/StoringOrderTests.swift", "ReverseProxyTests/LetterTests.swift",
            "ReverseProxyTests/CachingTests.swift", "ReverseProxyTests/SemanticsTests.swift", "ReverseProxyTests/ProxyingTests.swift",
            "ReverseProxyTests/RescueTests.swift", "ReverseProxyTests/CollapsingTests.swift", "ReverseProxyTests/ValidationTests.swift",
            "ReverseProxyTests/InvalidationTests.swift", "ReverseProxyTests/SelectionTests.swift",
            "CachePolicyTests/CredentialCookiesTests.swift", "CachePolicyTests/SharedRescueTests.swift",
            "ReverseProxyTests/SharedRescueWalkTests.swift", "ReverseProxyTests/GoneTests.swift",
        ]
        let tests = try suites.map { try #require(Self.read(Self.root + "Tests/" + $0), "\($0)") }.joined()
        for row in Requirement.all where !row.code.isEmpty {
            let parts = row.code.split(separator: " ")
            let source = try #require(Self.read(Self.root + "Sources/\(parts[0])"), "\(row.code)")
            #expect(source.contains(parts[1]), "\(row.code)")
            #expect(tests.contains("\"\(row.test)\""), "\(row.test)")
        }
    }
}

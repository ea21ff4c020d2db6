// Renders Sources/CachePolicy/README.md from the rows and compares it with the file; CISTERN_WRITE_REQUIREMENTS=1 writes the file first.
// Also checks that the code and the tests that the rows name exist.

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

    /// Text of all Swift files in a folder and its subfolders.
    private static func texts(in folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var texts: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            if name.hasSuffix(".swift"), let text = read(folder + "/" + name) { texts.append(text) }
            if !name.contains(".") { texts += self.texts(in: folder + "/" + name) }
        }
        return texts
    }

    /// Display names of all tests by identifier.
    private static let sentences: [String: String] = {
        var sentences: [String: String] = [:]
        for module in Set(Requirement.all.filter { !$0.code.isEmpty }.map { String($0.test.prefix { $0 != "." }) }) {
            for text in texts(in: root + "Tests/" + module) {
                for (identifier, sentence) in tests(in: text) { sentences["\(module).\(identifier)"] = sentence }
            }
        }
        return sentences
    }()

    /// `Suite/function` of each test, with its display name.
    private static func tests(in text: String) -> [(String, String)] {
        var tests: [(String, String)] = []
        var (suite, sentence): (Substring, Substring?) = ("", nil)
        var awaitsSentence = false
        for line in text.split(separator: "\n") {
            let isInside = line.hasPrefix("     ")
            let words = isInside ? [] : line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }
            if let place = words.firstIndex(of: "struct"), line.first != " ", place + 1 < words.count { suite = words[place + 1] }
            if line.hasPrefix("    @Test(") || awaitsSentence {
                let parts = line.split(separator: "\"", omittingEmptySubsequences: false)
                if parts.count > 2 { sentence = parts[1] }
                awaitsSentence = parts.count <= 2
            }
            if let place = words.firstIndex(of: "func"), line.hasPrefix("    "), let found = sentence {
                tests.append(("\(suite)/\(words[place + 1])", String(found)))
                sentence = nil
            }
        }
        return tests
    }

    private static var rendered: String {
        var text = """
            # Requirements of RFC 9111 for a shared cache

            This page is generated from the rows in `Tests/CachePolicyTests/Requirements`. A test fails if the code or the test of a row is
            missing. Rows marked strict describe `policy: strict`; Configuration/Concepts/When-the-Upstream-Fails.md describes how `rescue`
            differs. A random test compares the cache with a reference implementation of all requirements (`make soak`).

            | Section | Level | Requirement | Code | Test |
            |---|---|---|---|---|

            """
        for row in Requirement.all {
            let code = row.code.isEmpty ? "–" : "`\(row.code)`"
            let test = row.code.isEmpty ? row.test : "“\(sentences[row.test] ?? "")” `\(row.test)`"
            text += "| §\(row.section) | \(row.level.rawValue) | \(row.sentence) | \(code) | \(test) |\n"
        }
        return text
    }

    @Test("the generated page is current")
    func page() throws {
        if getenv("CISTERN_WRITE_REQUIREMENTS") != nil {
            let file = try #require(fopen(Self.page, "w"))
            fputs(Self.rendered, file)
            fclose(file)
        }
        #expect(Self.read(Self.page) == Self.rendered, "outdated; set CISTERN_WRITE_REQUIREMENTS=1 to write the page")
    }

    @Test("the code and tests named by the rows exist")
    func references() throws {
        for row in Requirement.all where !row.code.isEmpty {
            let parts = row.code.split(separator: " ")
            let source = try #require(Self.read(Self.root + "Sources/\(parts[0])"), "\(row.code)")
            #expect(source.contains(parts[1]), "\(row.code)")
            #expect(Self.sentences[row.test] != nil, "\(row.test)")
        }
    }
}

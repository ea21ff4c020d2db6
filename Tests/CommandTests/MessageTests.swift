// The texts of the program: help, messages, explanations. They name their subject, use established terms, and have short sentences.

import TestSupport
import Testing

@Suite("Style of messages")
struct MessageTests {
    /// Phrases that hide their subject or paraphrase an established term.
    private static let phrases = [
        #"\b(?:is|are|was|were|been|be) told\b"#, #"\btells? of\b"#, #"\bhears? of\b"#, #"\b(?:goes|go|went|gone) out\b"#, #"\bis asked\b"#,
        #"\bas ever\b"#, #"\bin vain\b"#, #"\bat hand\b"#, #"\bstands? in\b"#, #"\blets? go\b"#, #"\bgo(?:es)? on\b"#,
        #"\bobey(?:s|ed)?\b"#,
        #"\bis well\b"#, #"\b(?:no|some|every)body\b"#, #"\brooms?\b"#, #"\bthe same(?: as)?[.,;:]"#, #"\bwhose\b"#,
        #"\bhand(?:s|ed)? on\b"#,
        #"\bwhat is (?:stored|kept|known|good|gone|asked|left|long|there)\b"#, #"\bwho(?:ever)? (?:asks?|waits?|comes?|gets?|has)\b"#,
        #"\bof its own\b"#, #"\bby itself\b"#, #"\bit is looked\b"#,
    ]
    /// Files with literals that are no sentences: markup, shell commands, names.
    private static let others = ["StatusScript.swift", "StatusStyle.swift", "DemoChapters.swift", "SettingSynonyms.swift"]
    /// A part of stored keys, which must not change.
    private static let keyPart = "what was told"

    /// The literals of a source file with at least twelve characters, without their interpolations.
    private static func literals(_ source: String) -> [String] {
        let code = source.split(separator: "\n", omittingEmptySubsequences: false)
            .filter { !$0.drop { $0 == " " }.hasPrefix("//") }.joined(separator: "\n")
        let pieces = code.split(separator: "\"\"\"", omittingEmptySubsequences: false)
        var found: [String] = []
        for (index, piece) in pieces.enumerated() {
            if index % 2 == 1 {
                let text = piece.replacing("\\\n", with: " ").split(separator: "\n\n").filter { !$0.contains("Examples:") }
                found += text.map { String($0).replacing(#/ +/#, with: " ") }
            } else {
                found += piece.matches(of: #/"((?:[^"\\\n]|\\.){12,})"/#).map { String($0.1) }
            }
        }
        return found.map { $0.replacing(#/\\\((?:[^()]|\([^()]*\))*\)/#, with: "X") }
    }

    private static func texts() throws -> [(file: String, text: String)] {
        let sources = String(#filePath.dropLast("Tests/CommandTests/MessageTests.swift".utf8.count)) + "Sources"
        return try TestTools.swiftFiles(in: sources).filter { !others.contains(where: $0.hasSuffix) }
            .flatMap { path in try literals(TestTools.read(path)).map { (path, $0) } }
    }

    @Test("no message contains a discouraged phrase")
    func phrases() throws {
        let phrases = try Self.phrases.map { try Regex($0) }
        let texts = try Self.texts()
        #expect(texts.count > 3_000)
        for (file, text) in texts where text != Self.keyPart {
            for phrase in phrases where text.contains(phrase) { Issue.record("\(file): \(text)") }
        }
    }

    @Test("no sentence of a message has more than 25 words")
    func lengths() throws {
        for (file, text) in try Self.texts() {
            for sentence in text.split(separator: /[.!?;:]\s+|\n/) {
                let words = sentence.matches(of: /[A-Za-z][A-Za-z'-]*/).count
                if words > 25 { Issue.record("\(file): \(words) words: \(sentence)") }
            }
        }
    }

    @Test(
        "control characters of the command's own arguments do not reach the terminal",
        arguments: ["mode", "status --admin", "ls --limit", "upstream reset --api", "import", "check --config", "check --set", "serve --x"])
    func ownArguments(_ command: String) throws {
        let outcome = try CommandLineTool.run("\(command) \"$(printf 'a\\033[31m\\007\\302\\233\\342\\200\\256b')\"")
        #expect(outcome.status != 0 && !outcome.text.isEmpty)
        #expect(!outcome.text.unicodeScalars.contains { [0x1b, 0x07, 0x9b, 0x202e].contains($0.value) }, "\(outcome)")
    }
}

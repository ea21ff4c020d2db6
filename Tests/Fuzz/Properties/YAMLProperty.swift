// A configuration is accepted, or refused with messages and existing line numbers. Reading it twice has equal results.

@testable import Settings

enum YAMLProperty {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        // libyaml recognizes other line ends than a line feed too; all are control characters or not ASCII.
        let lines = bytes.count { $0 < 0x20 || $0 >= 0x80 } + 2
        let mistakes = read(bytes)
        for mistake in mistakes {
            try expect(!mistake.sentence.isEmpty && (0...lines).contains(mistake.line), "a mistake in line \(mistake.line) of \(lines)")
        }
        try expect(read(bytes) == mistakes, "parsing again finds other mistakes")
    }

    private static func read(_ bytes: [UInt8]) -> [ConfigurationMistake] {
        var reader = SettingsReader()
        reader.read(file: "file", text: bytes)
        reader.finish()
        return reader.mistakesInOrder
    }
}

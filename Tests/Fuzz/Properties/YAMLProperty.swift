// A configuration is read, or refused with sentences and lines that there are; and read twice it says the same.

@testable import Settings

enum YAMLProperty {
    static func check(_ bytes: [UInt8]) throws(Violation) {
        // libyaml takes more for the end of a line than a line feed; nothing else is one.
        let lines = bytes.count { $0 < 0x20 || $0 >= 0x80 } + 2
        let mistakes = read(bytes)
        for mistake in mistakes {
            try expect(!mistake.sentence.isEmpty && (0...lines).contains(mistake.line), "a mistake in line \(mistake.line) of \(lines)")
        }
        try expect(read(bytes) == mistakes, "other mistakes are found when it is read again")
    }

    private static func read(_ bytes: [UInt8]) -> [ConfigurationMistake] {
        var reader = SettingsReader()
        reader.read(file: "file", text: bytes)
        reader.finish()
        return reader.mistakesInOrder
    }
}

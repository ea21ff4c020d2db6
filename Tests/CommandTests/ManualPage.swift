// Formats text as a page for man(7).

struct ManualPage {
    private(set) var text: String

    init(title: String, section: Int, group: String) {
        text = ".\\\" Made by ManualPagesTests: write it anew with CISTERN_WRITE_MANUALS=1.\n"
        text += ".TH \(title.uppercased()) \(section) \"\" \"Cistern\" \"\(group)\"\n"
    }

    mutating func section(_ name: String) { text += ".SH \(name)\n" }
    mutating func subsection(_ name: String) { text += ".SS \(Self.escaped(name))\n" }

    /// Text paragraphs are filled; indented lines are kept as they are.
    mutating func paragraphs(_ words: String) {
        var isExample = false
        for line in words.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("  ") != isExample {
                isExample.toggle()
                text += isExample ? ".PP\n.nf\n.RS 4\n" : ".RE\n.fi\n"
            }
            if line.isEmpty {
                text += isExample ? "" : ".PP\n"
            } else {
                text += Self.escaped(isExample ? line.dropFirst(2) : line) + "\n"
            }
        }
        if isExample { text += ".RE\n.fi\n" }
    }

    mutating func paragraph(_ words: String) {
        text += ".PP\n"
        paragraphs(words)
    }

    /// A term with its description.
    mutating func item(_ term: String, _ words: String) {
        text += ".TP\n.B \(Self.escaped(term))\n\(Self.escaped(words))\n"
    }

    /// Escapes hyphens that users type, and characters that would begin a request.
    static func escaped(_ words: some StringProtocol) -> String {
        var result = ""
        for character in words {
            switch character {
            case "\\": result += "\\e"
            case "-": result += "\\-"
            case "'": result += "\\(aq"
            case "`": result += "\\(ga"
            case "…": result += "..."
            case "–": result += "\\(en"
            case "\n": result += "\n"
            default: result.append(character)
            }
        }
        return result.hasPrefix(".") ? "\\&" + result : result
    }
}

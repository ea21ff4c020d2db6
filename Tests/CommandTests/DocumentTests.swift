// Tests the documents of the repository: their links, the length of the manual's pages, and that its settings and commands exist.

import JSON
import Reactor
import Settings
import Testing

@testable import cistern

/// A Markdown file.
struct Document {
    static let root = String(#filePath.dropLast("Tests/CommandTests/DocumentTests.swift".count))

    /// Path below the top of the repository.
    let path: String
    let text: String

    init(_ path: String) throws {
        self.path = path
        text = String(decoding: try #require(FileContent.read(Self.root + path), "\(path)"), as: UTF8.self)
    }

    /// All Markdown files, or those of the manual: README.md, docker/README.md and everything below Configuration.
    static func all(ofManual: Bool = false) throws -> [Document] {
        let folders = ofManual ? "README.md docker Configuration" : ". -not -path './.build*'"
        let found = try CommandLineTool.run(program: "cd \(root) && find \(folders) -name '*.md'")
        return try found.lines.sorted().map { try Document($0.hasPrefix("./") ? String($0.dropFirst(2)) : $0) }
    }

    /// Fenced blocks with their language.
    var blocks: [(language: Substring, text: String)] {
        let parts = text.split(separator: "```", omittingEmptySubsequences: false)
        return stride(from: 1, to: parts.count, by: 2).map { index in
            let language = parts[index].prefix { $0 != "\n" }
            return (language, String(parts[index].dropFirst(language.count + 1)))
        }
    }

    /// The text outside of fenced blocks.
    var prose: String {
        text.split(separator: "```", omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 0 }.map(\.element).joined()
    }

    /// Fragments that lead to the headings, as GitHub makes them.
    var anchors: Set<String> {
        let headings = prose.split(separator: "\n").filter { $0.hasPrefix("#") }
        return Set(
            headings.map { heading in
                String(
                    heading.drop { $0 == "#" }.dropFirst().lowercased().compactMap { character in
                        character == " " ? "-" : character.isLetter || character.isNumber || "-_".contains(character) ? character : nil
                    })
            })
    }

    /// Relative links outside of code.
    var links: [Substring] {
        let plain = prose.split(separator: "`", omittingEmptySubsequences: false).enumerated()
            .map { $0.offset % 2 == 0 ? $0.element : "code" }.joined()
        return plain.split(separator: "](").dropFirst().map { $0.prefix { $0 != ")" } }
            .filter { !$0.contains("://") && !$0.hasPrefix("mailto:") }.map { Substring(String($0)) }
    }

    /// The file that a relative link leads to, below the top of the repository.
    func target(of link: Substring) -> String {
        let file = link.prefix { $0 != "#" }
        guard !file.isEmpty else { return path }
        var folders = path.split(separator: "/").dropLast()
        for part in file.split(separator: "/") where part != "." {
            if part == ".." { folders = folders.dropLast() } else { folders.append(part) }
        }
        return folders.joined(separator: "/")
    }
}

@Suite("Documentation")
struct DocumentTests {
    @Test("each relative link and each anchor in the documentation exists")
    func links() throws {
        for document in try Document.all() {
            for link in document.links {
                let target = document.target(of: link)
                let isThere = try CommandLineTool.run(program: "test -e '\(Document.root + target)'").status == 0
                #expect(isThere, "\(document.path): \(link)")
                guard isThere, target.hasSuffix(".md"), let mark = link.firstIndex(of: "#") else { continue }
                let anchor = String(link[mark...].dropFirst())
                #expect(try Document(target).anchors.contains(anchor), "\(document.path): \(link)")
            }
        }
    }

    @Test("pages and lines of the manual stay within their length limits")
    func length() throws {
        for document in try Document.all(ofManual: true) {
            for line in document.prose.split(separator: "\n") { #expect(line.count <= 140, "\(document.path): \(line)") }
            guard !document.text.hasPrefix("<!-- Generated") else { continue }
            let limit = document.path.contains("/Guides/") ? 900 : document.path.contains("/Concepts/") ? 1_500 : 2_500
            #expect(document.text.split { $0 == " " || $0 == "\n" }.count <= limit, "\(document.path)")
        }
        #expect(try Document("README.md").text.split(separator: "\n", omittingEmptySubsequences: false).count <= 101)
    }

    @Test("each page of the manual is in the table of contents")
    func contents() throws {
        let contents = try Document("Configuration/README.md")
        let linked = Set(contents.links.map { contents.target(of: $0) })
        for document in try Document.all(ofManual: true) where document.path.hasPrefix("Configuration/") && document.path != contents.path {
            #expect(linked.contains(document.path), "\(document.path)")
        }
    }

    @Test("settings in the manual are accepted")
    func settings() throws {
        for document in try Document.all(ofManual: true) {
            for block in document.blocks where block.language == "yaml" {
                var text = block.text
                if !text.contains("upstream:") && !text.hasPrefix("apis:") { text += "\nupstream: {url: \"https://api.example.com\"}\n" }
                var reader = SettingsReader()
                reader.read(file: document.path, text: Array(text.utf8))
                reader.finish()
                SettingsCheck.check(&reader)
                // Files that a reader of the manual has, and this machine does not.
                let mistakes = reader.mistakes.filter { !["/etc/", "/run/", "/var/"].contains(where: "\($0)".contains) }
                #expect(mistakes.isEmpty, "\(document.path)\n\(text)")
            }
        }
    }

    @Test("commands in the manual exist, with their options")
    func commands() throws {
        var help: [String: String] = [:]
        for document in try Document.all(ofManual: true) {
            for block in document.blocks where ["sh", "console"].contains(block.language) {
                for line in block.text.split(separator: "\n") {
                    let words = line.prefix { $0 != "#" }.split(separator: " ").drop { ["$", "sudo"].contains($0) }.map(String.init)
                    guard words.count > 1, words[0] == "cistern", !words[1].hasPrefix("-") else { continue }
                    let own = words.dropFirst().prefix { $0 != "--" }
                    let isNested =
                        ["drill", "notify", "share", "upstream"].contains(words[1]) && own.count > 1
                        && own[own.startIndex + 1].first?.isLetter == true
                    let command = own.prefix(isNested ? 2 : 1).joined(separator: " ")
                    if help[command] == nil { help[command] = try CommandLineTool.run("help \(command)").text }
                    let text = try #require(help[command])
                    #expect(text.contains("OVERVIEW"), "\(document.path): \(line)")
                    for option in own where option.hasPrefix("--") { #expect(text.contains(option), "\(document.path): \(line)") }
                }
            }
        }
    }

    @Test("the manual names every alert, command and admin API request")
    func references() throws {
        let alerts = try Document("docker/prometheus-rules.yml").text.split(separator: "- alert: ").dropFirst().map {
            $0.prefix { $0 != "\n" }
        }
        let requests = try Document("Sources/Administration/openapi.json").text.split(separator: "\"/-/").dropFirst().map {
            $0.prefix { $0 != "\"" }
        }
        let help = try #require(JSONValue(Array(try CommandLineTool.run("--experimental-dump-help").text.utf8))?["command"]?["subcommands"])
        let commands = (help.array ?? []).compactMap { $0["commandName"]?.string }.filter { $0 != "help" }
        let (monitoring, interface, list) = (
            try Document("Configuration/Guides/Monitoring.md").text, try Document("Configuration/Reference/admin-api.md").text,
            try Document("Configuration/Reference/commands.md").text
        )
        #expect(alerts.count > 20 && requests.count > 10 && commands.count > 10)
        for name in alerts { #expect(monitoring.contains("`\(name)`"), "\(name)") }
        for path in requests { #expect(interface.contains("/-/\(path.replacing("{id}", with: "ID"))"), "\(path)") }
        for name in commands { #expect(list.contains("`cistern \(name)"), "\(name)") }
    }
}

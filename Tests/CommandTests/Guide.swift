// Reads a guide of Configuration/Guides: its settings, its scripts, and its commands with their output.

import CacheStore
import ReverseProxy
import Settings
import TestSupport
import Testing

@testable import cistern

/// A guide, or one section of it.
struct Guide {
    struct Missing: Error {
        let what: String
    }

    private let text: Substring

    init(_ name: String, section title: String? = nil) throws {
        let page = try Document("Configuration/Guides/\(name).md").text
        guard let title else {
            text = page[...]
            return
        }
        guard let start = page.firstRange(of: "\n## \(title)\n") else { throw Missing(what: title) }
        let rest = page[start.upperBound...]
        text = rest[..<(rest.firstRange(of: "\n## ")?.lowerBound ?? rest.endIndex)]
    }

    /// The blocks of a language, in order.
    func blocks(_ language: String) -> [String] {
        // Every second part is a fenced block, which begins with its language.
        let parts = text.split(separator: "```", omittingEmptySubsequences: false)
        return stride(from: 1, to: parts.count, by: 2).compactMap { place in
            parts[place].hasPrefix(language + "\n") ? String(parts[place].dropFirst(language.count + 1)) : nil
        }
    }

    func yaml() throws -> String {
        guard let block = blocks("yaml").first else { throw Missing(what: "yaml") }
        return block
    }

    func settings() throws -> ProxySettings {
        var reader = SettingsReader()
        reader.read(file: "guide", text: Array(try yaml().utf8))
        reader.finish()
        SettingsCheck.check(&reader)
        #expect(reader.mistakes.isEmpty)
        return ProxySettings(reader.settings)
    }

    // MARK: Commands

    /// A command with its expected output; `…` stands for any text.
    private struct Step {
        let command: String
        var shown: [String] = []
    }

    private var steps: [Step] {
        var steps: [Step] = []
        for line in blocks("console").joined().split(separator: "\n").map(String.init) {
            if line.hasPrefix("$ ") {
                steps.append(Step(command: String(line.dropFirst(2))))
            } else {
                steps[steps.count - 1].shown.append(line)
            }
        }
        return steps
    }

    /// Runs the guide's commands in a shell against the real binary with the guide's first settings, and checks their output.
    /// - Parameters:
    ///   - options: additional options of `serve`.
    ///   - variables: shell variables that the guide assumes.
    ///   - ready: waits for required conditions.
    func play(
        _ origin: ScriptedOrigin, options: String = "", variables: [String: String] = [:],
        whenReady ready: (RunningCommand) throws -> Void = { _ in }
    ) throws {
        let temporary = TestTools.temporaryDirectory()
        let store = TestTools.temporaryDirectory()
        let file = temporary.path + "/cistern.yaml"
        try TestTools.write(try yaml(), to: file)
        let upstream = "--upstream http://127.0.0.1:\(origin.port) --cache-dir \(store.path)"
        let serve = try RunningCommand("serve --config \(file) \(upstream) \(options)", in: temporary.path)
        defer { #expect(serve.stop().status == 0) }
        try ready(serve)
        let tools = CommandLineTool.path[..<(CommandLineTool.path.lastIndex(of: "/") ?? CommandLineTool.path.startIndex)]
        var script = "PATH=\(tools):$PATH\nexport CISTERN_CONFIG=\(file) CISTERN_STORE_DIRECTORY=\(store.path)\n"
        script += "export CISTERN_LISTEN=127.0.0.1:\(serve.port)\n"
        for (name, value) in variables { script += "\(name)='\(value)'\n" }
        let steps = steps
        try #require(!steps.isEmpty)
        for step in steps { script += "echo '@@@@'\n\(step.command.replacing("127.0.0.1:8080", with: "127.0.0.1:\(serve.port)"))\n" }
        try TestTools.write(script, to: temporary.path + "/guide.sh")
        let outcome = try CommandLineTool.run(program: "sh \(temporary.path)/guide.sh")
        let parts = outcome.text.split(separator: "@@@@\n", omittingEmptySubsequences: false).dropFirst()
        try #require(parts.count == steps.count, "\(outcome.text)")
        for (step, part) in zip(steps, parts) { check(step, Self.lines(part)) }
    }

    private static func lines(_ text: Substring) -> [String] {
        text.split(whereSeparator: \.isNewline).map { Self.comparable(String($0)) }
    }

    private func check(_ step: Step, _ lines: [String]) {
        var rest = lines[...]
        for wanted in step.shown where wanted != "…" {
            guard let found = rest.firstIndex(of: Self.comparable(wanted)) else {
                Issue.record("\(step.command)\ndoes not show: \(wanted)\nbut: \(lines.joined(separator: "\n"))")
                return
            }
            rest = rest[(found + 1)...]
        }
        // A single expected line without dots must be the only line besides content.
        if step.shown.count == 1, step.shown != ["…"] { #expect(lines.count == 1, "\(step.command)") }
    }

    /// Removes the number of seconds of staleness, which varies.
    private static func comparable(_ line: String) -> String {
        guard let ttl = line.firstRange(of: "ttl=-") ?? line.firstRange(of: "ttl=0") else { return line }
        return line[..<ttl.lowerBound] + "ttl=-" + line[ttl.upperBound...].drop { $0.isNumber }
    }
}

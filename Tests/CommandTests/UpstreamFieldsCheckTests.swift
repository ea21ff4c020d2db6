// Tests of the settings `upstream.fields`: forms, inheritance, references to files and variables, mistakes, and secrecy.

import Forwarding
import Glibc
import ReverseProxy
import Settings
import TestSupport
import Testing

@testable import cistern

@Suite("Settings of fields for the upstream")
struct UpstreamFieldsCheckTests {
    private static let url = "upstream:\n  url: http://a.example\n"

    private static func reader(_ text: String) -> SettingsReader {
        var reader = SettingsReader()
        reader.read(file: "f.yaml", text: Array(text.utf8))
        reader.finish()
        SettingsCheck.check(&reader)
        return reader
    }

    private static func names(_ rules: UpstreamFieldRules) -> [String] { rules.fields.map { String(decoding: $0.name, as: UTF8.self) } }

    private static func rules(_ set: [(String, String)], remove: [String] = []) -> UpstreamFieldRules {
        var rules = UpstreamFieldRules()
        for name in remove { rules.remove(Array(name.utf8)) }
        for (name, value) in set { rules.set(Array(name.utf8), to: Array(value.utf8)) }
        return rules
    }

    @Test(
        "a group, a list of fields and a list of groups are equivalent",
        arguments: [
            "{X-A: a b, X-B: 2}", "[\"X-A: a b\", \"X-B: 2\"]", "[\"X-A:a b\", X-B: 2]", "[{X-A: a b}, {X-B: 2}]",
            "\"X-A: a b, X-B: 2\"",
        ])
    func forms(_ value: String) {
        let reader = Self.reader(Self.url + "  fields: {set: \(value), remove: [Referer]}\n")
        #expect(reader.mistakes.isEmpty, "\(reader.mistakes)")
        guard reader.mistakes.isEmpty else { return }
        let rules = ProxySettings(reader.settings).otherRoute.upstreamFields
        #expect(rules.fields == Self.rules([("X-A", "a b"), ("X-B", "2")]).fields && rules.fixed.count == 2)
        #expect(Set(rules.unforwarded.map { String(decoding: $0, as: UTF8.self) }) == ["x-a", "x-b", "referer"])
    }

    @Test("a route adds to the fields of its API, and an API to those of all paths; the more specific one applies")
    func inherited() {
        let reader = Self.reader(
            """
            upstream: {fields: {set: {X-All: "1", X-Key: all}, remove: [X-Debug]}}
            apis:
              - name: one
                upstream: http://a.example
                fields: {set: {X-Key: one}, remove: [X-All]}
                routes:
                  - {name: r, path: /r/**, fields: {set: {X-Debug: "2"}, remove: [X-Key]}}
                  - {name: s, path: /s/**}
              - {name: two, path: /two, upstream: http://b.example}
            """)
        #expect(reader.mistakes.isEmpty, "\(reader.mistakes)")
        guard reader.mistakes.isEmpty else { return }
        let apis = ProxySettings(reader.settings).apis
        let one = Self.rules([("X-Key", "one")], remove: ["X-All"])
        #expect(apis[0].otherRoute.upstreamFields.fields == one.fields && apis[0].routes[1].upstreamFields.fields == one.fields)
        #expect(apis[0].routes[0].upstreamFields.fields == Self.rules([("X-Debug", "2")]).fields)
        #expect(apis[0].routes[0].upstreamFields.unforwarded.contains(Array("x-key".utf8)))
        #expect(apis[1].otherRoute.upstreamFields.fields == Self.rules([("X-All", "1"), ("X-Key", "all")]).fields)
        // Only own fields are printed.
        let printed = reader.effective
        #expect(printed.split(separator: "\n").count { $0.contains("X-Debug") } == 2)
    }

    @Test("a value is read from a file or a variable, without a final line end")
    func references() throws {
        setenv("UPSTREAM_FIELDS_CHECK", "word of a variable", 1)
        for (end, isGood) in [("", true), ("\n", true), ("\r\n", true), ("\n\n", true), ("\nx", false), (" \n", false)] {
            let file = TestTools.file("word of a file" + end)
            let reader = Self.reader(
                Self.url + "  fields: {set: {X-A: \"file:\(file)\", Authorization: \"env:UPSTREAM_FIELDS_CHECK\"}}\n")
            #expect(reader.mistakes.isEmpty == isGood, "\(reader.mistakes)")
            guard isGood else { continue }
            let expected = Self.rules([("X-A", "word of a file"), ("Authorization", "word of a variable")])
            #expect(ProxySettings(reader.settings).otherRoute.upstreamFields == expected)
            #expect(reader.effective.contains("\"X-A: file:\(file)\", \"Authorization: env:UPSTREAM_FIELDS_CHECK\""))
        }
    }

    @Test("a changed file changes the settings of each API that uses it")
    func rotated() throws {
        let file = TestTools.file("one")
        let single = Self.url + "  fields: {set: {X-A: \"file:\(file)\"}}\n"
        let several = """
            apis:
              - {name: a, upstream: "http://a.example", fields: {set: {X-A: "file:\(file)"}}}
              - {name: b, path: /b, upstream: "http://b.example", routes: [{name: r, path: /r, fields: {set: {X-A: "file:\(file)"}}}]}
              - {name: c, path: /c, upstream: "http://c.example"}
            """
        let before = [single, several].map { Self.reader($0).settings }
        try TestTools.write("two", to: file)
        let after = [single, several].map { Self.reader($0).settings }
        let changes = zip(before, after).map { SettingsChange(from: $0, to: $1) }
        #expect(changes[0].changed == ["upstream.fields.set"] && changes[0].unchangedAPIs.isEmpty)
        #expect(changes[1].changed == ["apis.a", "apis.b"] && changes[1].unchangedAPIs == ["c"])
        #expect(SettingsChange(from: after[0], to: after[0]).changed.isEmpty)
        #expect(before[0].hash == after[0].hash)
    }

    struct Mistake: Sendable, CustomTestStringConvertible {
        let fields: String
        let sentence: String
        var testDescription: String { fields }
    }

    @Test(
        "each mistake is reported with its line and without the value",
        arguments: [
            Mistake(fields: "set: [tell-nobody]", sentence: "set: entry 1 is not of the form Name: value"),
            Mistake(fields: "set: {\"X A\": tell-nobody}", sentence: "set: the name of entry 1 is not a field name"),
            Mistake(fields: "set: {\":path\": tell-nobody}", sentence: "set: the name of entry 1 is not a field name"),
            Mistake(fields: "set: {Host: tell-nobody}", sentence: "set: Cistern manages Host itself: remove it"),
            Mistake(fields: "set: {content_length: tell-nobody}", sentence: "set: Cistern manages content_length itself: remove it"),
            Mistake(fields: "set: {If-None-Match: tell-nobody}", sentence: "set: Cistern manages If-None-Match itself: remove it"),
            Mistake(fields: "set: {X-A: }", sentence: "set: X-A has no value; use fields.remove to remove a field"),
            Mistake(fields: "set: {X-A: tell-nobody, x_a: tell-nobody}", sentence: "set: x_a is given twice: remove one"),
            Mistake(fields: "set: {X-A: tell-nobody}, remove: [X-A]", sentence: "remove: X-A is given twice: remove one"),
            Mistake(fields: "remove: [\"X-*\"]", sentence: "remove: the name of entry 1 is not a field name"),
            Mistake(fields: "remove: [Via]", sentence: "remove: Cistern manages Via itself: remove it"),
            Mistake(fields: "set: {X-A: \"tell-nobody\\nX-B: c\"}", sentence: "set: X-A: the value must have at most 8192 bytes"),
            Mistake(fields: "set: {X-A: \"tell-nobody\\0\"}", sentence: "set: X-A: the value must have at most 8192 bytes"),
            Mistake(fields: "set: {X-A: \"file:/nowhere/key\"}", sentence: "set: X-A: /nowhere/key cannot be read: No such file"),
            Mistake(fields: "set: {X-A: \"file:/dev/null\"}", sentence: "set: X-A: /dev/null"),
            Mistake(fields: "set: {X-A: \"env:UPSTREAM_FIELDS_NONE\"}", sentence: "set: X-A: the environment has no variable"),
            Mistake(fields: "set: {Authorization: NTLM tell-nobody}", sentence: "set: Authorization: Negotiate, NTLM and similar"),
            Mistake(fields: "set: {X-A: {b: tell-nobody}}", sentence: "set must have one value for each name"),
            Mistake(fields: "set: [{X-A: [tell-nobody]}]", sentence: "set must be a list of plain values"),
        ])
    func mistakes(_ mistake: Mistake) {
        let top = Self.reader(Self.url + "  fields: {\(mistake.fields)}\n").mistakes.map(\.description)
        #expect(top.count == 1 && top[0].hasPrefix("f.yaml:3: upstream.fields.\(mistake.sentence)"), "\(top)")
        let text = "\(Self.url)routes:\n  - {name: r, path: /r/**, fields: {\(mistake.fields)}}\n"
        let route = Self.reader(text).mistakes.map(\.description)
        #expect(route.count == 1 && route[0].hasPrefix("f.yaml:4: ") && route[0].contains("fields.\(mistake.sentence)"), "\(route)")
        #expect(!(top + route).joined().contains("tell-nobody"))
    }

    @Test("an API's mistake is reported once, with the API's name")
    func mistakeOfAPI() {
        let fields = "{set: {X-A: \"env:UPSTREAM_FIELDS_NONE\"}}"
        let reader = Self.reader("apis:\n  - {name: a, upstream: \"http://a.example\", fields: \(fields)}\n")
        let expected = "f.yaml:2: API a: fields.set: X-A: the environment has no variable UPSTREAM_FIELDS_NONE"
        #expect(reader.mistakes.map(\.description) == [expected])
    }

    @Test("a secret in the file is neither printed nor part of the hash")
    func hidden() {
        func reader(_ word: String) -> SettingsReader {
            Self.reader(
                "\(Self.url)  fields: {set: {X-A: \(word)}}\nroutes:\n  - {name: r, path: /r, fields: {set: [\"X-B: \(word)\"]}}\n")
        }
        let (one, other) = (reader("tell-nobody"), reader("tell-somebody"))
        #expect(one.effective.contains("set: [\"X-A: REDACTED\"]") && one.effective.contains("set: [\"X-B: REDACTED\"]"))
        #expect(!one.effective.contains("tell-nobody"))
        #expect(one.settings.hash == other.settings.hash && one.settings != other.settings)
        #expect(one.settings.hash != Self.reader(Self.url).settings.hash)
    }

    @Test("other users' access to a file with a value is reported")
    func openFile() {
        let file = TestTools.file("word")
        chmod(file, 0o644)
        let settings = Self.reader("\(Self.url)routes:\n  - {name: r, path: /r, fields: {set: {X-A: \"file:\(file)\"}}}\n").settings
        #expect(SecretFiles.warnings(settings).count { $0.hasPrefix("upstream.fields.set: other users can read \(file)") } == 1)
    }
}

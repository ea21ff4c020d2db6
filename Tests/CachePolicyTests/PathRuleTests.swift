// Tests path rules with models of how servers read paths. No spelling evades a protecting rule, and no rule exposes a path that a server
// reads differently.

import HTTPCore
import TestSupport
import Testing

@testable import CachePolicy

@Suite("Path rules under different path interpretations")
struct PathRuleTests {
    private enum Rule { case inner, innerFile, open, openItem, rest }

    private static let patterns: [(String, Rule)] = [
        ("/internal/**", .inner), ("/a/secret", .innerFile), ("/open/**", .open), ("/items/*/read", .openItem),
    ]
    private static let table = PathTable(patterns.map { (RoutePattern($0), $1) }, rest: Rule.rest)

    /// The rule that applies to the path as a server reads it.
    private static func rule(of segments: [String]) -> Rule {
        if segments.first == "internal" { return .inner }
        if segments == ["a", "secret"] { return .innerFile }
        if segments.first == "open" { return .open }
        if segments.count == 3, segments[0] == "items", !segments[1].isEmpty, segments[2] == "read" { return .openItem }
        return .rest
    }

    private enum Spelling {
        private static let names = ["internal", "a", "secret", "open", "items", "read", "x", "..", "..", "..", ".", "", "b.c"]
        private static let separators = ["/", "/", "/", "/", "//", "%2f", "%2F", "\\", "%5c", ";p/", ";/", "%3bq/", "/./", "%00/"]
        private static let odd = ["%252f", "%%32%66", "%255c", "%c0%af", "%e0%80%af", "%u002f", "%09/"]

        static func make(_ random: inout SeededGenerator) -> String {
            var path = "/"
            for index in 0..<1 + random.below(6) {
                if index > 0 { path += random.pick(random.isTrue(oneIn: 8) ? odd : separators) }
                path += spelled(random.pick(names), &random)
            }
            return path + random.pick(["", "", "/", ";x", "?a=/internal/b", "%2f"])
        }

        private static func spelled(_ name: String, _ random: inout SeededGenerator) -> String {
            guard random.isTrue(oneIn: 4) else { return name }
            let percent = random.pick(["%", "%", "%25", "%u00", "%%"])
            return name.utf8.map { byte in
                guard random.isTrue() else { return String(UnicodeScalar(byte)) }
                let digits = String(byte, radix: 16)
                // The digits behind a stray percent sign are encoded themselves.
                return percent == "%%" ? "%" + digits.utf8.map { "%" + String($0, radix: 16) }.joined() : percent + digits
            }.joined()
        }
    }

    @Test("no spelling of a path evades a protecting rule or gains an opening one")
    func models() {
        var (protected, opened) = (0, 0)
        let isWhole = RandomSchedules.run(5_000, steps: 1) { _ in
        } step: { _, random in
            let target = Spelling.make(&random)
            let bytes = Array(target.utf8)[...]
            let path = String(target.prefix { $0 != "?" })
            let isProtected = Self.table.holdsForAny(bytes) { $0 == .inner || $0 == .innerFile }
            let isOpen = Self.table.holdsForAll(bytes) { $0 == .open }
            let isOpenItem = Self.table.holdsForAll(bytes) { $0 == .openItem }
            protected += isProtected ? 1 : 0
            opened += isOpen || isOpenItem ? 1 : 0
            for server in ServerModel.all {
                guard let read = server.read(path) else { continue }
                let rule = Self.rule(of: read)
                let isRight =
                    (rule != .inner && rule != .innerFile || isProtected) && (rule == .open || !isOpen)
                    && (rule == .openItem || !isOpenItem)
                try demand(isRight, "\(server.name) reads \(target) as \(read)")
            }
        }
        #expect(!isWhole || (protected > 250 && opened > 25), "the schedule contains both kinds")
    }

    @Test(
        "ordinary spellings of a path match its own rules",
        arguments: [
            ("/open/a%20b", true), ("/open/caf%C3%A9", true), ("/open/group%2Fproject", true), ("/open/a;v=1", true), ("/open//a", true),
            ("/open/a%3Ab/%40c", true), ("/%6Fpen/a", true), ("/open/.well-known", true), ("/open/a%252Fb", true),
            ("/open/../open/a", true),
            ("/open/../other", false), ("/open/..%2fother", false), ("/open/..;/other", false), ("/open/..\\other", false),
            ("/open/x/..%5c..%5cother", false), ("/x/..;/open/a", false),
        ])
    func opened(_ target: String, _ isOpen: Bool) {
        #expect(Self.table.holdsForAll(Array(target.utf8)[...]) { $0 == .open } == isOpen)
    }

    @Test(
        "a protecting rule applies to every interpretation of a path",
        arguments: [
            "/z/a%5cb/../../internal/x", "/z/a\\b/../../internal/x", "/z/a%2fb/../../internal/x", "/z/a;b/../../internal;c/x",
            "/z//../internal/x",
            "/internal%2fx", "/%2e/internal", "/internal%00.json", "/open/..%3b/internal/x", "/a/b/..%2fsecret", "/a/secret/.",
            "/./a/%73ecret",
            "/a/secret;jsessionid=1", "/%2569nternal/x", "/x/%252e%252e/internal/x", "/x%252f..%252finternal/x", "/%%36%39nternal/x",
            "/internal%0a/x", "/internal%00/x", "/x/.%09./internal/x", "/x/..%c0%afinternal/x", "/x/%c0%ae%c0%ae/internal/x",
            "/%u0069nternal/x", "/%252569nternal/x", "/inter%ffnal/x", "/x/..%255cinternal/x", "/internal%252fx",
            "//x/internal/y", "///x/internal/y", "/\\x/internal/y", "//u:p@x:1/a/secret",
        ])
    func protected(_ target: String) {
        #expect(Self.table.holdsForAny(Array(target.utf8)[...]) { $0 == .inner || $0 == .innerFile })
    }

    @Test(
        "an opaque path is not protected if no interpretation matches",
        arguments: [
            "/100%25", "/a%20b%2520c", "/50%", "/a%252fb", "/x/internal%2520", "/%ff", "/a%0ab", "/a%2525", "/x%252finternal", "/%u00e4",
        ])
    func unprotected(_ target: String) {
        #expect(!Self.table.holdsForAny(Array(target.utf8)[...]) { $0 == .inner || $0 == .innerFile })
    }

    @Test("with too many interpretations, all protecting rules and no opening rules apply")
    func unclear() {
        let target = Array("/open/a%2f..\\..;x//%2e%2e/b;c/../d%5c../open/e".utf8)[...]
        #expect(Self.table.holdsForAny(target) { $0 == .innerFile } && !Self.table.holdsForAll(target) { $0 == .open })
        #expect(PathTable(rest: Rule.open).holdsForAll(target) { $0 == .open }, "no rule depends on the path")
    }

    @Test("a pattern with non-ASCII letters matches the percent-encoded path")
    func letters() {
        #expect(RoutePattern("/käse/**").matches(Array("/k%C3%A4se/1".utf8)[...]))
        #expect(RoutePattern("/k%c3%a4se/**").matches(Array("/k%C3%A4se/1".utf8)[...]))
    }

    @Test("rules that merge requests or ignore directives apply only if all interpretations have them")
    func merging() {
        var rules = ArgumentRules()
        rules.ignore = [ArgumentPattern("utm_*")]
        (rules.drop, rules.ignoresCase) = ([ArgumentPattern("t")], true)
        var freshness = FreshnessRules()
        (freshness.ignored, freshness.standard) = ([.noStore, .expires], 60)
        var other = FreshnessRules()
        other.ignored = [.expires]
        let open = RoutePattern("/open/**")
        let arguments = PathTable([(open, rules)], rest: ArgumentRules())
        let times = PathTable([(open, freshness)], rest: other)
        for (target, holds) in [("/open/a%2fb", true), ("/open/..%2fme", false)] {
            let bytes = Array(target.utf8)[...]
            #expect((arguments.rules(for: bytes) == rules) == holds)
            #expect(arguments.rules(for: bytes).drop == rules.drop, "the forwarded target and the key use the same rules")
            #expect(times.rules(for: bytes).ignored == (holds ? [.noStore, .expires] : [.expires]))
            #expect(times.rules(for: bytes).standard == 60)
        }
        #expect(SharedRescueMode.always.stricter(.publicOnly) == .publicOnly && SharedRescueMode.own.stricter(.always) == .own)
        #expect(Compression.always.stricter(.br) == .gzip && Compression.br.stricter(.always) == .br)
    }

    @Test("an ambiguous path gets no CORS permission, and upstream permissions are removed")
    func crossOrigin() {
        var rules = CrossOriginRules()
        rules.origins = [Array("*".utf8)]
        let table = PathTable([(RoutePattern("/open/**"), rules)], rest: CrossOriginRules())
        let mixed = table.rules(for: Array("/open/..%2fme".utf8)[...])
        var fields = Fields()
        fields.append(.origin, "https://a.test")
        let head = RequestHead(method: .get, target: Array("/".utf8)[...], version: .http11, fields: fields)
        #expect(mixed.isOn && !String(decoding: mixed.lines(for: head), as: UTF8.self).contains("Allow-Origin"))
        #expect(!table.rules(for: Array("/me".utf8)[...]).isOn && table.rules(for: Array("/open/a".utf8)[...]) == rules)
    }
}

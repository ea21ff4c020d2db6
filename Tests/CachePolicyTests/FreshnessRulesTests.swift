// Table tests of configured freshness rules applied to responses.

import CachePolicy
import HTTPCore
import Testing

/// A row: rules, fields of a response, and the resulting freshness lifetime with its source.
private struct Row: CustomTestStringConvertible, Sendable {
    let rules: String
    let cacheControl: String
    let status: UInt16
    let expected: String
    /// Description of the row.
    let sentence: String

    var testDescription: String { sentence }

    init(_ rules: String, _ cacheControl: String, status: UInt16 = 200, _ expected: String, _ sentence: String) {
        (self.rules, self.cacheControl, self.status, self.expected, self.sentence) = (rules, cacheControl, status, expected, sentence)
    }
}

/// Parses `default=60 minimum=5 ignore=no-cache,max-age`.
private func rules(_ text: String) -> FreshnessRules {
    var rules = FreshnessRules()
    for word in text.split(separator: " ") {
        let parts = word.split(separator: "=")
        let seconds = Int64(parts[1])
        switch parts[0] {
        case "default": rules.standard = seconds
        case "minimum": rules.minimum = seconds
        case "maximum": rules.maximum = seconds
        case "negative": rules.negative = seconds ?? 0
        case "ignore": rules.ignored = Set(parts[1].split(separator: ",").compactMap { IgnoredDirective(rawValue: String($0)) })
        default: Issue.record("\(word) is no rule")
        }
    }
    return rules
}

@Suite("Freshness set by the operator")
struct FreshnessRulesTests {
    @Test(
        "the freshness rules determine the lifetime and its source",
        arguments: [
            Row("", "", "always asked", "no rules and no lifetime: always validated"),
            Row("", "max-age=30", "30 by response", "no rules: the response's lifetime"),
            Row("default=60", "", "60 by standard", "default applies without a lifetime"),
            Row("default=60", "max-age=30", "30 by response", "default does not replace a lifetime"),
            Row("default=60", "max-age=0", "0 by response", "default does not replace max-age=0"),
            Row("default=60", "", status: 404, "always asked", "default does not apply to errors"),
            Row("default=60", "", status: 301, "60 by standard", "default applies to redirects"),
            Row("minimum=5", "max-age=3", "5 by minimum", "minimum extends a shorter lifetime"),
            Row("minimum=5", "max-age=5", "5 by response", "minimum does not change an equal lifetime"),
            Row("minimum=5", "", "5 by minimum", "minimum applies without a lifetime"),
            Row("minimum=5 default=60", "", "60 by standard", "the greater of minimum and default: default"),
            Row("minimum=5 default=3", "", "5 by minimum", "the greater of minimum and default: minimum"),
            Row("minimum=5", "max-age=0", "0 by response", "minimum does not extend max-age=0"),
            Row("minimum=5 ignore=max-age", "max-age=0", "5 by minimum", "minimum extends an ignored max-age=0"),
            Row("minimum=5", "no-cache", "always asked", "minimum does not extend no-cache"),
            Row("minimum=5 ignore=no-cache", "no-cache", "5 by minimum", "minimum extends an ignored no-cache"),
            Row("minimum=5", "max-age=3, must-revalidate", "3 by response", "minimum does not extend must-revalidate"),
            Row("minimum=5", "max-age=3, proxy-revalidate", "3 by response", "minimum does not extend proxy-revalidate"),
            Row(
                "minimum=5 ignore=must-revalidate", "max-age=3, must-revalidate", "5 by minimum",
                "minimum extends an ignored must-revalidate"),
            Row("minimum=5", "max-age=3", status: 500, "3 by response", "minimum does not extend errors"),
            Row("maximum=60", "max-age=3600", "60 by maximum", "maximum limits a longer lifetime"),
            Row("maximum=60", "s-maxage=3600, max-age=1", "60 by maximum", "maximum limits s-maxage"),
            Row("maximum=60", "", "always asked", "maximum gives no lifetime"),
            Row("maximum=60 default=90", "", "60 by maximum", "maximum limits default"),
            Row("maximum=60", "max-age=3600", status: 404, "60 by maximum", "maximum limits errors"),
            Row("ignore=max-age", "max-age=30, s-maxage=40", "always asked", "ignoring max-age ignores s-maxage"),
            Row("ignore=expires", "", "always asked", "ignoring Expires leaves no lifetime"),
            Row(
                "minimum=60 ignore=no-cache,max-age,expires", "no-cache, max-age=0", "60 by minimum",
                "minimum applies if all directives are ignored"),
            Row("negative=10", "", status: 404, "10 by negative", "negative applies without a lifetime"),
            Row("negative=10", "max-age=3", status: 410, "3 by negative", "negative does not extend a shorter lifetime"),
            Row("negative=10", "max-age=300", status: 404, "10 by negative", "negative limits a longer lifetime"),
            Row("negative=10 maximum=5", "", status: 404, "10 by negative", "maximum does not limit negative"),
            Row("negative=10", "", status: 403, "always asked", "negative does not apply to a 403"),
            Row("negative=10", "", "always asked", "negative does not apply to a 200"),
        ])
    private func lifetimes(row: Row) {
        let rules = rules(row.rules)
        var fields = Fields()
        if !row.cacheControl.isEmpty { fields.append(name: "Cache-Control", value: row.cacheControl) }
        if row.rules.contains("expires") { fields.append(name: "Expires", value: "Mon, 01 Jan 2035 00:00:00 GMT") }
        let control = rules.applied(to: ResponseCacheControl(fields))
        let said = Freshness.lifetime(fields, control, date: Timestamp(seconds: 1_795_000_000), now: 1_795_000_000)
        let (seconds, source) = rules.lifetime(of: Status(rawValue: row.status), said: said, heuristic: nil, control)
        #expect(seconds.map { "\($0) by \(source)" } ?? "always asked" == row.expected)
    }

    @Test("heuristic freshness takes precedence over the default, within the configured bounds")
    func heuristics() {
        let control = ResponseCacheControl()
        #expect(rules("default=60").lifetime(of: 200, said: nil, heuristic: 20, control) == (20, .heuristic))
        #expect(rules("minimum=30").lifetime(of: 200, said: nil, heuristic: 20, control) == (30, .minimum))
        #expect(rules("maximum=10").lifetime(of: 200, said: nil, heuristic: 20, control) == (10, .maximum))
        #expect(rules("").lifetime(of: 404, said: nil, heuristic: 20, control) == (20, .heuristic))
    }

    @Test("only the configured response directives are ignored", arguments: IgnoredDirective.allCases)
    func ignored(directive: IgnoredDirective) {
        var fields = Fields()
        fields.append(name: "Cache-Control", value: "no-store, no-cache, private, max-age=1, s-maxage=2, must-revalidate, proxy-revalidate")
        let whole = ResponseCacheControl(fields)
        var expected = whole
        switch directive {
        case .noStore: expected.noStore = false
        case .noCache: expected.noCache = false
        case .privateResponse: expected.isPrivate = false
        case .maxAge: (expected.maxAge, expected.sharedMaxAge) = (nil, nil)
        case .expires: expected.hidesExpires = true
        case .mustRevalidate: (expected.mustRevalidate, expected.proxyRevalidate) = (false, false)
        case .vary: break
        }
        #expect(rules("ignore=\(directive.rawValue)").applied(to: whole) == expected)
    }

    @Test("ignoring Vary still respects *, Origin and credential fields")
    func vary() {
        let rules = rules("ignore=vary")
        let names = ["accept-language", "*", "origin", "authorization", "x-api-key", "user-agent"]
        let kept = names.filter { rules.varies(by: Array($0.utf8), credentials: CredentialNames(["authorization", "x-api-key"])) }
        #expect(kept == ["*", "origin", "authorization", "x-api-key"])
        // Also if the configured list of credentials omits them.
        #expect(
            ["cookie", "authorization", "proxy-authorization"].allSatisfy {
                rules.varies(by: Array($0.utf8), credentials: CredentialNames([]))
            })
        #expect(names.allSatisfy { FreshnessRules().varies(by: Array($0.utf8), credentials: CredentialNames([])) })
    }
}

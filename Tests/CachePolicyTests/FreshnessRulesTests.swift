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
            Row("", "", "always asked", "what says nothing is asked for, as without rules"),
            Row("", "max-age=30", "30 by response", "what is said holds"),
            Row("default=60", "", "60 by standard", "the default is for what says nothing"),
            Row("default=60", "max-age=30", "30 by response", "the default changes nothing that is said"),
            Row("default=60", "max-age=0", "0 by response", "also not that it is stale at once"),
            Row("default=60", "", status: 404, "always asked", "errors are the matter of negative"),
            Row("default=60", "", status: 301, "60 by standard", "redirects are not"),
            Row("minimum=5", "max-age=3", "5 by minimum", "the minimum lengthens what is said"),
            Row("minimum=5", "max-age=5", "5 by response", "what is as long is the response's own"),
            Row("minimum=5", "", "5 by minimum", "the minimum is also for what says nothing"),
            Row("minimum=5 default=60", "", "60 by standard", "the longer of both"),
            Row("minimum=5 default=3", "", "5 by minimum", "the longer of both, the other way"),
            Row("minimum=5", "max-age=0", "0 by response", "what says that it is stale at once is not lengthened"),
            Row("minimum=5 ignore=max-age", "max-age=0", "5 by minimum", "but where that is ignored"),
            Row("minimum=5", "no-cache", "always asked", "nor is no-cache"),
            Row("minimum=5 ignore=no-cache", "no-cache", "5 by minimum", "but where that is ignored"),
            Row("minimum=5", "max-age=3, must-revalidate", "3 by response", "nor is must-revalidate"),
            Row("minimum=5", "max-age=3, proxy-revalidate", "3 by response", "nor is proxy-revalidate"),
            Row("minimum=5 ignore=must-revalidate", "max-age=3, must-revalidate", "5 by minimum", "but where that is ignored"),
            Row("minimum=5", "max-age=3", status: 500, "3 by response", "errors are not lengthened"),
            Row("maximum=60", "max-age=3600", "60 by maximum", "the maximum shortens what is said"),
            Row("maximum=60", "s-maxage=3600, max-age=1", "60 by maximum", "s-maxage comes first, and is shortened"),
            Row("maximum=60", "", "always asked", "and gives nothing to what says nothing"),
            Row("maximum=60 default=90", "", "60 by maximum", "it holds for the default too"),
            Row("maximum=60", "max-age=3600", status: 404, "60 by maximum", "and for errors"),
            Row("ignore=max-age", "max-age=30, s-maxage=40", "always asked", "ignoring max-age ignores s-maxage"),
            Row("ignore=expires", "", "always asked", "ignoring Expires leaves nothing"),
            Row("minimum=60 ignore=no-cache,max-age,expires", "no-cache, max-age=0", "60 by minimum", "once a minute"),
            Row("negative=10", "", status: 404, "10 by negative", "negative keeps what says nothing"),
            Row("negative=10", "max-age=3", status: 410, "3 by negative", "for as long as it says, where that is shorter"),
            Row("negative=10", "max-age=300", status: 404, "10 by negative", "and no longer than negative"),
            Row("negative=10 maximum=5", "", status: 404, "10 by negative", "the maximum is for what is good"),
            Row("negative=10", "", status: 403, "always asked", "other errors only where they are named"),
            Row("negative=10", "", "always asked", "and what is good is not negative"),
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

// Tests which cookies are part of a request's partition.

import HTTPCore
import Testing

@testable import CachePolicy

struct CookieRow: Sendable, CustomTestStringConvertible {
    let says: String
    /// The values of a request's Cookie fields.
    let left: [String]
    let right: [String]

    init(_ says: String, _ left: [String], _ right: [String]) {
        self.says = says
        self.left = left
        self.right = right
    }

    var testDescription: String { says }
}

@Suite("Cookies as credentials (RFC 6265 §4.2)")
struct CredentialCookiesTests {
    private func parts(_ values: [String], _ change: (inout CachePolicySettings) -> Void = { _ in }) -> [UInt8] {
        var settings = CachePolicySettings()
        change(&settings)
        var fields = Fields()
        for value in values { fields.append(.cookie, value) }
        var parts: [UInt8] = []
        CredentialCookies(settings).append(of: fields, to: &parts)
        return parts
    }

    @Test(
        "equivalent cookies identify the same user",
        arguments: [
            CookieRow("in another order", ["a=1; b=2"], ["b=2; a=1"]),
            CookieRow("with other white space", ["a=1;b=2"], [" a = 1 ;\tb=2; "]),
            CookieRow("in several fields", ["a=1; b=2"], ["b=2", "a=1"]),
            CookieRow("with a load balancer's cookie", ["a=1"], ["a=1; AWSALB=x/+==; AWSALBCORS=y"]),
            CookieRow("with other values of analytics cookies", ["_ga=GA1.2.3; a=1"], ["a=1; _ga=GA1.9.9; _gid=7"]),
            CookieRow("with an ignored cookie in quotes", ["a=1"], ["a=1; _ga=\"x\""]),
            CookieRow("with additional empty members", ["a=1"], ["; ;a=1;;"]),
            CookieRow("no user: only ignored names", [], ["_ga=1; __cf_bm=2; ARRAffinitySameSite=3"]),
            CookieRow("no user: an empty field", [], [" ; "]),
        ])
    func same(_ row: CookieRow) {
        #expect(parts(row.left) == parts(row.right))
    }

    @Test(
        "different cookies identify different users",
        arguments: [
            CookieRow("another value", ["a=1"], ["a=2"]),
            CookieRow("an additional cookie", ["a=1"], ["a=1; b=2"]),
            CookieRow("names are case-sensitive", ["SID=1"], ["sid=1"]),
            CookieRow("ignored names are case-sensitive", [], ["_GA=1"]),
            CookieRow("a prefix of an ignored name", [], ["_gi=1"]),
            CookieRow("an ignored name with a suffix", [], ["_gidx=1"]),
            CookieRow("two cookies with one name in another order", ["a=1; a=2"], ["a=2; a=1"]),
            CookieRow("two cookies with one name instead of one", ["a=1"], ["a=1; a=1"]),
            CookieRow("quotes are part of a value", ["a=1"], ["a=\"1\""]),
            CookieRow("an empty value differs from an absent cookie", [], ["a="]),
            CookieRow("names and values are delimited", ["a=b; c=d"], ["a=bc; =d"]),
            CookieRow("white space within a value", ["a=b c"], ["a=bc"]),
        ])
    func different(_ row: CookieRow) {
        #expect(parts(row.left) != parts(row.right))
    }

    @Test(
        "an ambiguous Cookie field counts as a whole",
        arguments: [
            "a=\"x; _ga=secret\"", "_ga=\"x; session=secret\"", "_ga=1,session=secret", "_ga=1 session=secret", "_ga=1\\;session=secret",
            "secret; _ga=1", "=secret; _ga=1", "$Version=1; a=b; $Path=/; _ga=1", "a b=c; _ga=1", "a,b=c; _ga=1", "_ga=1\tsession=2",
            "_ga=\u{e4}",
        ])
    func unclear(_ value: String) {
        #expect(!parts([value]).isEmpty)
        #expect(parts([value]) != parts([value.replacing("secret", with: "other")]) || !value.contains("secret"))
    }

    @Test(
        "a session cookie whose name begins like an ignored one counts as a credential",
        arguments: [
            "_gallery_session", "_game_server_key", "_gatekeeper_session", "_gate", "_hjelm_session", "_pk_session", "_gcl_session",
            "NSC_AAAC",
            "NSC_TMAS", "AWSALBAuthNonce", "AWSELBAuthSessionCookie-0", "BIGipAuth", "__cf_bmx", "SERVERIDS", "incap_user", "visid_x",
        ])
    func sessions(name: String) {
        #expect(parts(["\(name)=1"]) != parts(["\(name)=2"]))
    }

    @Test(
        "cookies of analytics tools and load balancers are ignored",
        arguments: [
            "_ga", "_ga_1A2B3C4D5E", "_gid", "_gat", "_gat_gtag_UA_1_1", "_gac_gb_G-1", "_gcl_au", "__utma", "_fbp", "_hjSessionUser_1",
            "_hjSession_1", "_pk_id.1.1fff", "_pk_ses.1.1fff", "AWSALB", "AWSALBCORS", "AWSALBTG", "AWSALBAPP-0", "AWSELB", "ARRAffinity",
            "ARRAffinitySameSite", "ApplicationGatewayAffinityCORS", "BIGipServerpool_1", "SERVERID", "__cf_bm", "incap_ses_7_1",
            "visid_incap_1", "nlbi_1",
        ])
    func ignored(name: String) {
        #expect(parts(["\(name)=1"]).isEmpty)
    }

    @Test("an ambiguous Cookie field never equals an unambiguous one")
    func ambiguousDiffers() {
        #expect(parts(["a"]) != parts(["a="]))
        #expect(parts(["cookie pairs"]) != parts(["cookie pairs="]))
    }

    @Test("cookies above the sorting limit count in their original order")
    func many() {
        let cookies = (0...CredentialCookies.pairLimit).map { "c\($0)=1" }
        #expect(parts([cookies.joined(separator: "; ")]) != parts([cookies.reversed().joined(separator: "; ")]))
        let fewer = cookies.dropLast()
        #expect(parts([fewer.joined(separator: "; ")]) == parts([fewer.reversed().joined(separator: "; ")]))
    }

    @Test("the operator configures which cookies count and which are ignored")
    func settings() {
        #expect(parts(["a=1; session=2"]) { $0.credentials.cookies = ["session"] } == parts(["session=2"]))
        #expect(parts(["a=1"]) { $0.credentials.cookies = [] }.isEmpty)
        #expect(!parts(["_ga=1"]) { $0.credentials.ignoredCookies = [] }.isEmpty)
        #expect(parts(["lb-7=1"]) { $0.credentials.ignoredCookies = ["lb-*"] }.isEmpty)
    }

    @Test("under strict policy every cookie counts, because Vary: Cookie covers the whole field (RFC 9111 §4.1)")
    func strict() {
        #expect(!parts(["_ga=1"]) { $0.strictness = .strict }.isEmpty)
        #expect(!parts(["a=1"]) { ($0.strictness, $0.credentials.cookies) = (.strict, []) }.isEmpty)
    }

    @Test("a cookie pattern is a name with an optional * at its end")
    func patterns() {
        for text in ["*", "a", "_ga*", "user[id]"] { #expect(CookiePattern.isPattern(text), "\(text)") }
        for text in ["", "a*b", "**", "a b", "a=1", "a;", "\u{e4}"] { #expect(!CookiePattern.isPattern(text), "\(text)") }
    }
}

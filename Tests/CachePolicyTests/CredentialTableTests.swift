// Tests which credential rules apply to a path, however it is spelled.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Credential rules by path")
struct CredentialTableTests {
    private static let ignoring: CredentialRules = {
        var rules = CredentialRules()
        rules.areIgnored = true
        return rules
    }()

    private func head(_ target: String) -> RequestHead {
        RequestHead(method: .get, target: Array(target.utf8)[...], version: .http11, fields: Fields())
    }

    @Test(
        "credentials are ignored on an open route only if the upstream cannot read a different path",
        arguments: [
            ("/open/a", true), ("/open/a%2fb", true), ("/open//a", true), ("/%6fpen/a", true), ("/open/../open/a", true),
            ("/open/a;x", true),
            ("/open/..%2fme", false), ("/open/..;/me", false), ("/open/../me", false), ("/open/%2e%2e/me", false), ("/open/..\\me", false),
            ("/me", false), ("/me/../open/a", false), ("/x//y", false), ("/z/a%5cb/../../open/x", false), ("/open/a%5cb/../../me", false),
            // Servers may end these paths early, or decode them again, and then read other paths.
            ("/open/a%00", false), ("/open/a%0Ab", false), ("/open/%252e%252e/me", false), ("/open/100%25", true),
        ])
    func openRoute(target: String, areIgnored: Bool) {
        let table = CredentialTable(PathTable([(RoutePattern("/open/**"), Self.ignoring)], rest: CredentialRules()))
        #expect((table.specialRules(for: head(target))?.areIgnored ?? false) == areIgnored, "\(target)")
    }

    @Test(
        "if only one route uses credentials, no alternative spelling of its path avoids it",
        arguments: [
            ("/a", true), ("/a//b", true), ("/me/x", false), ("//me/x", false), ("/./me/x", false), ("/%6de/y", false),
            ("/a/..%2fme/x", false),
            ("/me;a/x", false),
        ])
    func closedRoute(target: String, areIgnored: Bool) {
        let table = CredentialTable(PathTable([(RoutePattern("/me/**"), CredentialRules())], rest: Self.ignoring))
        #expect((table.specialRules(for: head(target))?.areIgnored ?? false) == areIgnored, "\(target)")
    }

    @Test(
        "identity lookup rules apply only if the upstream cannot read a different path",
        arguments: [("/a/b", 0), ("/a/../b", nil), ("/a//b", 0)])
    func lookUps(target: String, place: Int?) {
        var rules = CredentialRules()
        rules.lookUp = 0
        let table = CredentialTable(PathTable([(RoutePattern("/a/**"), rules)], rest: CredentialRules()))
        #expect(table.specialRules(for: head(target))?.lookUp == place)
    }
}

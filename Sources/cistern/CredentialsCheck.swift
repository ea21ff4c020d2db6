// Checks settings of credentials that depend on each other.

import CachePolicy
import Glibc
import HTTPCore
import Identity
import JSON
import Reactor
import ReverseProxy
import Settings

enum CredentialsCheck {
    static func check(_ reader: inout SettingsReader) {
        let settings = reader.settings
        check(settings.otherRoute.rules, "", "", &reader)
        let rest = settings.otherRoute.rules
        for route in settings.routes.map(\.rules)
        where (route.credentials, route.tokens, route.lookUp) != (rest.credentials, rest.tokens, rest.lookUp) {
            check(route, "routes.\(route.name).", "route \(route.name): ", &reader)
        }
    }

    /// - Parameters:
    ///   - prefix: prefix of the settings' paths, to find their lines.
    ///   - who: prefix of messages.
    private static func check(
        _ route: Route, _ prefix: String, _ who: String, _ reader: inout SettingsReader
    ) {
        checkLookUp(route, prefix, who, &reader)
        let keys = route.tokens.keys
        let tokens = route.tokens.settings
        let group = "credentials.identity.jwt"
        func add(_ name: String, _ sentence: String) {
            reader.add(about: "\(prefix)\(group).\(name)", "\(who)\(group).\(name) \(sentence)")
        }
        guard !keys.isEmpty else {
            if !tokens.issuers.isEmpty { add("issuer", "needs \(group).keys: without keys no token can be verified") }
            return
        }
        if tokens.issuers.isEmpty { add("keys", "needs \(group).issuer: the accepted issuers must be named") }
        if tokens.audiences.isEmpty { add("keys", "needs \(group).audience: the accepted audiences must be named") }
        if tokens.subject.isEmpty || ["iss", "aud"].contains(tokens.subject) || TokenSettings.alwaysVolatile.contains(tokens.subject) {
            add("subject", "must be a claim that identifies the user, not \"\(tokens.subject)\"")
        }
        for claim in tokens.volatileClaims where TokenSettings.alwaysIdentity.contains(claim) || claim == tokens.subject {
            add("ignore_claims", "cannot contain \(claim): without this claim, two users could share a partition")
        }
        if !reader.settings.proxy.policy.credentials.fields.contains(where: { $0.lowercased() == "authorization" }) {
            add("keys", "needs authorization among cache.credential_fields")
        }
        if let file = route.tokens.authorities {
            if !keys.lowercased().hasPrefix("https://") { add("ca_file", "applies only if keys is an https URL") }
            if let reason = SystemError.whyUnreadable(file) { add("ca_file", reason) }
        }
        if !RouteTokens.isURL(keys), let problem = problem(ofFile: keys) { add("keys", "\(keys) \(problem)") }
    }

    private static func checkLookUp(
        _ route: Route, _ prefix: String, _ who: String, _ reader: inout SettingsReader
    ) {
        let lookUp = route.lookUp
        let group = "credentials.identity.lookup"
        func add(_ name: String, _ sentence: String) {
            reader.add(about: "\(prefix)\(group).\(name)", "\(who)\(group).\(name) \(sentence)")
        }
        guard !lookUp.path.isEmpty else { return }
        if !lookUp.path.hasPrefix("/") || !lookUp.path.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) {
            add("path", "must be a path that begins with /, not \"\(lookUp.path)\"")
        }
        if !route.tokens.keys.isEmpty { add("path", "and credentials.identity.jwt.keys cannot both identify users") }
        if lookUp.pointers.isEmpty, lookUp.fields.isEmpty {
            add("path", "needs \(group).identity or \(group).fields: select the values that identify the user")
        }
        for pointer in lookUp.pointers where pointer.isEmpty || JSONPointer(pointer) == nil {
            add("identity", "\"\(pointer)\" is not a JSON Pointer, such as /user/id")
        }
        for field in lookUp.fields where field.isEmpty || !field.utf8.allSatisfy(isTokenByte) {
            add("fields", "\"\(field)\" is not a field name")
        }
    }

    private static func problem(ofFile path: String) -> String? {
        guard let text = FileContent.read(path) else {
            return "is not an http or https URL, and cannot be read as a file: \(SystemError.words())"
        }
        guard let set = KeySet(text) else { return "is not a JWK Set (RFC 7517)" }
        return set.keys.isEmpty ? "has \(set.unusableReason)" : nil
    }
}

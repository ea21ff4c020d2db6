// Checks settings of credentials that depend on each other, and converts them to the types of the request flow.

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
        check(settings.credentials, "", "", &reader)
        for route in settings.routes where route.credentials != settings.credentials {
            check(route.credentials, "routes.\(route.name).", "route \(route.name): ", &reader)
        }
    }

    /// - Parameters:
    ///   - place: prefix of the settings' paths, to find their lines.
    ///   - who: prefix of messages.
    private static func check(
        _ credentials: CisternSettings.Credentials, _ place: String, _ who: String, _ reader: inout SettingsReader
    ) {
        checkLookUp(credentials, place, who, &reader)
        let tokens = credentials.identity.jwt
        let group = "credentials.identity.jwt"
        func add(_ name: String, _ sentence: String) {
            reader.add(about: "\(place)\(group).\(name)", "\(who)\(group).\(name) \(sentence)")
        }
        guard !tokens.keys.isEmpty else {
            if !tokens.issuer.isEmpty { add("issuer", "needs \(group).keys: without keys no token can be verified") }
            return
        }
        if tokens.issuer.isEmpty { add("keys", "needs \(group).issuer: whose tokens are taken is never left open") }
        if tokens.audience.isEmpty { add("keys", "needs \(group).audience: for whom the tokens are is never left open") }
        if tokens.subject.isEmpty || ["iss", "aud"].contains(tokens.subject) || TokenSettings.alwaysVolatile.contains(tokens.subject) {
            add("subject", "must be a claim that says whom a token belongs to, not \"\(tokens.subject)\"")
        }
        for claim in tokens.ignoreClaims where TokenSettings.alwaysIdentity.contains(claim) || claim == tokens.subject {
            add("ignore_claims", "cannot name \(claim): without it two users could be one")
        }
        if !reader.settings.cache.credentialFields.contains(where: { $0.lowercased() == "authorization" }) {
            add("keys", "needs authorization among cache.credential_fields")
        }
        if !tokens.caFile.isEmpty {
            if !tokens.keys.lowercased().hasPrefix("https://") { add("ca_file", "is only for keys of an https URL") }
            if let reason = SystemError.whyUnreadable(tokens.caFile) { add("ca_file", reason) }
        }
        if !RouteTokens.isURL(tokens.keys), let problem = problem(ofFile: tokens.keys) { add("keys", "\(tokens.keys) \(problem)") }
    }

    private static func checkLookUp(
        _ credentials: CisternSettings.Credentials, _ place: String, _ who: String, _ reader: inout SettingsReader
    ) {
        let lookUp = credentials.identity.lookup
        let group = "credentials.identity.lookup"
        func add(_ name: String, _ sentence: String) {
            reader.add(about: "\(place)\(group).\(name)", "\(who)\(group).\(name) \(sentence)")
        }
        guard !lookUp.path.isEmpty else { return }
        if !lookUp.path.hasPrefix("/") || !lookUp.path.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) {
            add("path", "must be a path that begins with /, not \"\(lookUp.path)\"")
        }
        if !credentials.identity.jwt.keys.isEmpty { add("path", "and credentials.identity.jwt.keys cannot both say whose a request is") }
        if lookUp.identity.isEmpty, lookUp.fields.isEmpty {
            add("path", "needs \(group).identity or \(group).fields: what says who a user is")
        }
        for pointer in lookUp.identity where pointer.isEmpty || JSONPointer(pointer) == nil {
            add("identity", "\"\(pointer)\" is not a JSON Pointer, such as /user/id")
        }
        for field in lookUp.fields where field.isEmpty || !field.utf8.allSatisfy(isTokenByte) {
            add("fields", "\"\(field)\" is not a field name")
        }
    }

    private static func problem(ofFile path: String) -> String? {
        guard let text = FileContent.read(path) else {
            return "is no http or https URL, and as a file it cannot be read: \(SystemError.words())"
        }
        guard let set = KeySet(text) else { return "is no JWK Set (RFC 7517)" }
        return set.keys.isEmpty ? "has \(set.whyUnusable)" : nil
    }
}

extension LookUpSettings {
    init(_ settings: CisternSettings.Credentials.LookUp) {
        self.init()
        path = settings.path
        pointers = settings.identity
        fields = settings.fields
        keep = Int64(settings.keep)
    }
}

extension RouteTokens {
    init(_ settings: CisternSettings.Credentials.Tokens) {
        self.init()
        keys = settings.keys
        authorities = settings.caFile.isEmpty ? nil : settings.caFile
        self.settings.issuers = settings.issuer
        self.settings.audiences = settings.audience
        self.settings.subject = settings.subject
        self.settings.types = settings.type
        self.settings.leeway = Int64(settings.leeway / 1000)
        self.settings.rescuesExpired = Int64(settings.rescueExpired / 1000)
        self.settings.volatileClaims = settings.ignoreClaims
    }
}

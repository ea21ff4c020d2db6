// Checks `cors`.

import CachePolicy
import HTTPCore
import ReverseProxy
import Settings

extension SettingsCheck {
    static func checkCrossOrigin(_ reader: inout SettingsReader) {
        let settings = reader.settings
        for (name, sentence) in mistakes(of: settings.otherRoute) { reader.add(about: name, sentence) }
        for route in settings.routes where route.rules.crossOrigin != settings.otherRoute.rules.crossOrigin {
            for (name, sentence) in mistakes(of: route) {
                reader.add(about: "routes.\(route.name).\(name)", "route \(route.name): \(sentence)")
            }
        }
    }

    private static func mistakes(of route: CisternSettings.Route) -> [(name: String, sentence: String)] {
        var mistakes: [(String, String)] = []
        let words = { (words: [[UInt8]]) in words.map { String(decoding: $0, as: UTF8.self) } }
        let rules = route.rules.crossOrigin
        let origins = words(rules.origins)
        for origin in origins where origin != "*" && origin != "null" && !isOrigin(origin) {
            mistakes.append(
                ("cors.origins", "cors.origins: \"\(origin)\" is not an origin as browsers send it, such as https://app.example.com"))
        }
        if origins.contains("*"), origins.contains(where: { $0 != "*" && $0 != "null" }) {
            mistakes.append(("cors.origins", "cors.origins: * includes all origins except null: remove the others"))
        }
        if origins.contains("*"), rules.allowsCredentials {
            mistakes.append(
                ("cors.credentials", "cors.credentials needs a list of origins, because browsers reject credentials with *"))
        }
        for (name, list) in [("cors.methods", words(rules.methods)), ("cors.fields", words(rules.fields))] {
            for word in list where word.isEmpty || !word.utf8.allSatisfy(isTokenByte) {
                mistakes.append((name, "\(name): \"\(word)\" is not one word of letters, digits and -"))
            }
        }
        return mistakes
    }

    /// Whether the text is an origin: scheme, host in lower case, and a port other than the scheme's default (RFC 6454 §6.2).
    static func isOrigin(_ text: String) -> Bool {
        guard let end = text.firstRange(of: "://"), text == text.lowercased(), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            return false
        }
        let (scheme, host) = (text[..<end.lowerBound], text[end.upperBound...])
        guard !scheme.isEmpty, !host.isEmpty, !host.contains(where: { "/?#@,*\"'<>".contains($0) }) else { return false }
        return !(scheme == "http" && host.hasSuffix(":80")) && !(scheme == "https" && host.hasSuffix(":443"))
    }
}

// Removes secrets from text that repeats what an operator typed: user information and arguments of URLs.

enum HiddenSecrets {
    /// The text with `…` instead of the user information and the arguments of each URL in it. A URL ends at a space or a quotation mark.
    static func hide(in text: String) -> String {
        guard text.contains("@") || text.contains("?") else { return text }
        var shown = ""
        var rest = text[...]
        while let scheme = rest.firstRange(of: "://") {
            shown += rest[..<scheme.upperBound]
            rest = rest[scheme.upperBound...]
            let end = rest.firstIndex { $0 == " " || $0 == "\"" } ?? rest.endIndex
            shown += hide(inURL: rest[..<end])
            rest = rest[end...]
        }
        return shown + rest
    }

    /// The text without the user information and the arguments of each word in it, whether that is a URL, a path or HOST:PORT. A word ends at a
    /// space or a quotation mark.
    static func withoutSecrets(_ text: String) -> String {
        guard text.contains("@") || text.contains("?") else { return text }
        return text.split(omittingEmptySubsequences: false) { $0 == " " || $0 == "\"" }.map { word in
            let place = word.prefix { $0 != "?" }
            guard let end = place.lastIndex(of: "@") else { return String(place) }
            return String(place[..<(place.firstRange(of: "://")?.lowerBound ?? place.startIndex)] + place[end...])
        }.joined(separator: " ")
    }

    /// - Parameter url: behind its scheme.
    private static func hide(inURL url: Substring) -> String {
        let arguments = url.firstIndex(of: "?")
        let place = url[..<(arguments ?? url.endIndex)]
        // A password may hold a slash that was not encoded, so the last @ counts.
        let host = place.lastIndex(of: "@").map { "…" + place[$0...] } ?? String(place)
        return host + (arguments == nil ? "" : "?…")
    }
}

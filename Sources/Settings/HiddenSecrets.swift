// Removes user information and query strings of URLs from text that repeats an operator's input.

public enum HiddenSecrets {
    /// The text with `…` instead of the user information and the query string of each URL, also of a URL without a scheme. A quoted URL
    /// ends at the quotation mark, an unquoted one at a space.
    public static func hide(in text: String) -> String { replace(in: text, by: "…") }

    /// The text without the user information and the query string of each URL.
    static func withoutSecrets(_ text: String) -> String { replace(in: text, by: "") }

    private static func replace(in text: String, by mark: String) -> String {
        guard text.contains("@") || text.contains("?") else { return text }
        return text.split(separator: "\"", omittingEmptySubsequences: false).enumerated().map { index, part in
            // Every second part is quoted, and may contain spaces by mistake.
            index % 2 == 1
                ? replace(inURL: part, by: mark)
                : part.split(separator: " ", omittingEmptySubsequences: false).map { replace(inURL: $0, by: mark) }.joined(separator: " ")
        }.joined(separator: "\"")
    }

    /// - Parameter text: a URL, with or without a scheme, or a word.
    private static func replace(inURL text: Substring, by mark: String) -> String {
        let start = text.firstRange(of: "://")?.upperBound ?? text.startIndex
        let (scheme, url) = (text[..<start], text[start...])
        let address = url.prefix { $0 != "?" }
        // A password may contain an unencoded slash, so the last @ counts.
        let host = address.dropFirst().lastIndex(of: "@").map { mark + address[$0...] } ?? String(address)
        // In a question, or a list of characters, only punctuation follows the question mark.
        let hasArguments = url[address.endIndex...].contains { $0.isLetter || $0.isNumber }
        return scheme + host + (hasArguments ? "?" + mark : url[address.endIndex...])
    }
}

// Builds an HTML page. Markup comes from literals in the source only; all other text is escaped by `ShownText`.

struct MarkupWriter {
    private(set) var bytes: [UInt8] = []

    mutating func markup(_ literal: StaticString) { literal.withUTF8Buffer { bytes.append(contentsOf: $0) } }

    mutating func text(_ text: String, limit: Int = ShownText.limit) { ShownText.append(text, limit: limit, to: &bytes) }

    /// ` name="value"`.
    mutating func attribute(_ name: StaticString, _ value: String, limit: Int = ShownText.limit) {
        markup(" ")
        markup(name)
        markup("=\"")
        text(value, limit: limit)
        markup("\"")
    }

    /// - Parameters:
    ///   - open: the start tag, without `<` and `>`.
    ///   - close: the element's name.
    mutating func element(_ open: StaticString, _ close: StaticString, _ text: String, limit: Int = ShownText.limit) {
        markup("<")
        markup(open)
        markup(">")
        self.text(text, limit: limit)
        markup("</")
        markup(close)
        markup(">")
    }
}

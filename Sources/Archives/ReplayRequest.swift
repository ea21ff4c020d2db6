// The parts of a request that a replay compares: method, target and content, canonical and with placeholders for secrets. Also holds the
// fields that select among several recorded responses.

import CachePolicy
import HTTPCore

public struct ReplayRequest: Sendable {
    public let method: [UInt8]
    /// Path and query, with placeholders for secrets.
    public let target: [UInt8]
    /// Length of the path in `target`.
    let pathBytes: Int
    public let hasCredentials: Bool
    let fields: Fields
    /// Values that responses may repeat (`ReplayRules.echoed`).
    let echoed: [[UInt8]?]
    /// Requests with equal keys are treated as identical.
    let key: Key

    struct Key: Hashable, Sendable {
        let method: [UInt8]
        let target: [UInt8]
        let range: [UInt8]
        /// nil if the content was not recorded; the request then matches any content.
        let content: [UInt8]?

        func with(method: [UInt8]? = nil, range: [UInt8]? = nil) -> Key {
            Key(method: method ?? self.method, target: target, range: range ?? self.range, content: content)
        }

        var withAnyContent: Key { Key(method: method, target: target, range: range, content: nil) }
    }

    /// Whether it is a CORS preflight (Fetch §4.8). Browsers decide how often to send preflights.
    let isPreflight: Bool

    /// - Parameters:
    ///   - target: path and query.
    ///   - content: nil if it was not recorded.
    public init(
        method: [UInt8], target given: [UInt8], fields all: Fields, content: [UInt8]?, _ secrets: SecretRedaction,
        _ rules: ReplayRules = ReplayRules()
    ) {
        self.method = method
        echoed = rules.echoed(target: given, all, content ?? [])
        let fields = rules.compared(all)
        let target = secrets.redact(target: given)
        self.target = target
        pathBytes = target.firstIndex(of: UInt8(ascii: "?")) ?? target.count
        self.fields = fields
        hasCredentials = (0..<fields.count).contains { secrets.isSecret(field: fields.name(at: $0)) }
        var canonical: [UInt8] = []
        CacheKey.append(to: &canonical, prefix: [], target: target.span, rules: rules.arguments)
        let wanted = method == Array("OPTIONS".utf8) ? all.all(named: "access-control-request-method").first : nil
        isPreflight = wanted != nil
        // A preflight has no content. The requested method takes the position of the content in the key, because preflights for different
        // methods have different responses.
        var said: [UInt8]? = content == nil && !rules.ignoresContent ? nil : wanted.map { Array($0) } ?? []
        if let content, !content.isEmpty, !rules.ignoresContent {
            let redacted = secrets.redact(content: rules.compared(content, of: all), type: MediaType(of: fields))
            said = RequestContent.said(
                method: Method(method.span), fields: fields, content: redacted.span, rules: rules.arguments, keepsNumbers: false)
        }
        key = Key(method: method, target: canonical, range: fields.first(.range).map { Array($0) } ?? [], content: said)
    }
}

// What of a request is compared: method, target and content, with placeholders for secrets, in one spelling; and what chooses among several
// recorded responses to the same.

import CachePolicy
import HTTPCore

public struct ReplayRequest: Sendable {
    public let method: [UInt8]
    /// Path and query, as they may be shown.
    public let target: [UInt8]
    /// Of the target.
    let pathBytes: Int
    public let hasCredentials: Bool
    let fields: Fields
    /// Two requests with the same key are the same.
    let key: Key

    struct Key: Hashable, Sendable {
        let method: [UInt8]
        let target: [UInt8]
        let range: [UInt8]
        /// nil where nobody knows: then it is as good as any.
        let content: [UInt8]?

        func with(method: [UInt8]? = nil, range: [UInt8]? = nil) -> Key {
            Key(method: method ?? self.method, target: target, range: range ?? self.range, content: content)
        }

        var withAnyContent: Key { Key(method: method, target: target, range: range, content: nil) }
    }

    /// A browser's question whether a script may ask (Fetch §4.8): how often it comes is the browser's matter.
    let isPreflight: Bool

    /// - Parameters:
    ///   - target: path and query.
    ///   - content: nil where it was not recorded.
    public init(method: [UInt8], target: [UInt8], fields: Fields, content: [UInt8]?, _ secrets: SecretCovering) {
        self.method = method
        let target = secrets.cover(target: target)
        self.target = target
        pathBytes = target.firstIndex(of: UInt8(ascii: "?")) ?? target.count
        self.fields = fields
        hasCredentials = (0..<fields.count).contains { secrets.isSecret(field: fields.name(at: $0)) }
        var canonical: [UInt8] = []
        CacheKey.append(to: &canonical, prefix: [], target: target.span, rules: nil)
        let wanted = method == Array("OPTIONS".utf8) ? fields.all(named: "access-control-request-method").first : nil
        isPreflight = wanted != nil
        // A preflight has no content; what it asks for takes its place, since one for another method is another question.
        var said: [UInt8]? = content == nil ? nil : wanted.map { Array($0) } ?? []
        if let content, !content.isEmpty {
            let covered = secrets.cover(content: content, type: MediaType(of: fields))
            said = RequestContent.said(method: Method(method.span), fields: fields, content: covered.span, rules: nil)
        }
        key = Key(method: method, target: canonical, range: fields.first(.range).map { Array($0) } ?? [], content: said)
    }
}

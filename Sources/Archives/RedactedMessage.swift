// Fields of a message for display. Hides more than an archive, which must remain usable as a recording: also URLs in any field, and fields
// whose name only ends like that of a secret.

import CachePolicy
import HTTPCore

/// Fields of a message with placeholders instead of secrets.
public struct RedactedMessage: Sendable {
    private let secrets: SecretRedaction
    private let links: LinkRedaction
    private static let placeholder = Array(SecretNames.redaction.utf8)

    /// - Parameter fields: additional credential fields, in lower case.
    public init(fields: [String]) {
        secrets = SecretRedaction(fields: fields)
        links = LinkRedaction(secrets, isForDisplay: true)
    }

    public func fields(_ fields: Fields) -> [(name: String, value: String)] {
        let redacted = secrets.redact(fields)
        return (0..<redacted.count).map { index in
            let name = redacted.name(at: index)
            // A field that archives also redact keeps its parts that are not secret.
            let value = redacted.value(at: index)
            let isNew = !secrets.isSecret(field: name) && SecretNames.isSecret(shown: name) && !SecretRedaction.isFlag(value)
            let shown = isNew ? Self.placeholder : links.redact(value)
            return (String(decoding: name, as: UTF8.self), String(decoding: shown, as: UTF8.self))
        }
    }
}

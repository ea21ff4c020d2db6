// The fields of a message as people see them. More is covered here than in an archive, which has to be of use as a recording: links in any field, and
// names that only end like a secret's.

import CachePolicy
import HTTPCore

/// The fields of a message, with placeholders in the places of secrets.
public struct ShownMessage: Sendable {
    private let secrets: SecretCovering
    private let links: LinkCovering
    private static let placeholder = Array(SecretNames.redaction.utf8)

    /// - Parameter fields: those that hold credentials beside the known ones, in lower case.
    public init(fields: [String]) {
        secrets = SecretCovering(fields: fields)
        links = LinkCovering(secrets, isForPeople: true)
    }

    public func fields(_ fields: Fields) -> [(name: String, value: String)] {
        let covered = secrets.cover(fields)
        return (0..<covered.count).map { index in
            let name = covered.name(at: index)
            // What archives cover of it keeps what can be seen without the secret.
            let isNew = !secrets.isSecret(field: name) && SecretNames.isSecret(shown: name)
            let value = isNew ? Self.placeholder : links.cover(covered.value(at: index))
            return (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
        }
    }
}

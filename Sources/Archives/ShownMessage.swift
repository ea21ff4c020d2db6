// What people are shown of a message. More is covered here than in an archive, which has to be of use as a recording: links wherever they stand,
// whatever lies under a secret's name, and names that only end like one. What cannot be gone through is not shown.

import CachePolicy
import HTTPCore
import JSON

/// The fields and the content of a message, with placeholders in the places of secrets.
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

    /// nil where it is neither JSON nor plain text: then nobody knows where a secret may stand.
    public func content(_ content: [UInt8], type: MediaType?) -> [UInt8]? {
        let isPlain = type?.isEssence("text/plain") == true
        guard isPlain || type?.isJSON == true else { return nil }
        switch JSONTextChecker.check(content.span) {
        case .valid, .validScalar: return json(content)
        default: return isPlain ? pairs(links.cover(content[...])[...]) : nil
        }
    }

    // MARK: JSON

    private func json(_ content: [UInt8]) -> [UInt8] {
        var (covered, copied) = ([] as [UInt8], 0)
        func replace(_ range: Range<Int>, by bytes: [UInt8]) {
            covered += content[copied..<range.lowerBound] + bytes
            copied = range.upperBound
        }
        let quoted = [0x22] + Self.placeholder + [0x22]
        var (depth, isSecret) = (0, false)
        // The object or array that is left out as a whole, by its depth and its place.
        var hidden: (depth: Int, start: Int)?
        JSONWalk.through(content.span) { token, end, meaning in
            let wasSecret = isSecret
            isSecret = false
            switch token {
            case .beginObject, .beginArray:
                if wasSecret, hidden == nil { hidden = (depth, end - 1) }
                depth += 1
            case .endObject, .endArray:
                depth -= 1
                guard let place = hidden, place.depth == depth else { break }
                replace(place.start..<end, by: quoted)
                hidden = nil
            case .name(let range) where hidden == nil:
                let name = meaning(range)
                isSecret = SecretNames.isSecret(shown: name)
                if let other = other(name) { replace(range, by: other) }
            case .string(let range) where hidden == nil:
                if wasSecret {
                    replace(range, by: range.isEmpty ? [] : Self.placeholder)
                } else if mayHoldLink(content[range]) {
                    if let other = other(meaning(range)) { replace(range, by: other) }
                }
            case .number(let range) where hidden == nil && wasSecret: replace(range, by: quoted)
            case .name, .string, .number, .literal: break
            }
            return true
        }
        return covered + content[copied...]
    }

    /// What stands in the place of a string, between its quotes; nil where there is nothing to cover.
    private func other(_ meaning: [UInt8]) -> [UInt8]? {
        let covered = links.cover(meaning[...])
        guard covered != meaning else { return nil }
        return Array(JSONValue.string(String(decoding: covered, as: UTF8.self)).serialized().dropFirst().dropLast())
    }

    /// Strings that hold none are seldom longer than a look.
    private func mayHoldLink(_ spelt: ArraySlice<UInt8>) -> Bool {
        spelt.contains { $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: "@") || $0 == UInt8(ascii: "%") || $0 == 0x5c }
    }

    // MARK: Text

    /// `password=…` and `Token: …` in a text that is nothing but text.
    private func pairs(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var covered: [UInt8] = []
        var rest = text
        while let first = rest.first {
            let name = rest.prefix { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") }
            guard !name.isEmpty else {
                covered.append(first)
                rest = rest.dropFirst()
                continue
            }
            covered += name
            rest = rest[name.endIndex...]
            guard SecretNames.isSecret(shown: name) else { continue }
            let sign = rest.prefix { $0 == 0x20 || $0 == 0x22 || $0 == 0x27 || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "=") }
            guard sign.contains(where: { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "=") }) else { continue }
            covered += sign
            rest = rest[sign.endIndex...]
            if rest.starts(with: Self.placeholder) { continue }
            covered += Self.placeholder
            rest = rest.drop { $0 != 0x0a && $0 != 0x0d }
        }
        return covered
    }
}

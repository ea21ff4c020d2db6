// Detects GraphQL errors, which have status 200. Such an error must not replace a good stored response, even if the route has no rule for
// it.

import HTTPCore
import JSON

public enum GraphQLResponse {
    /// Returns whether the content has errors and no data, for example `PersistedQueryNotFound`.
    /// - Parameter content: valid JSON.
    public static func isError(_ content: Span<UInt8>) -> Bool {
        var (depth, member) = (0, [UInt8]())
        var (hasErrors, hasData) = (false, false)
        JSONWalk.through(content) { token, meaning in
            switch token {
            case .name(let range):
                if depth == 1 { member = meaning(range) }
                return true
            case .endArray, .endObject:
                depth -= 1
                return true
            case .beginArray, .beginObject: depth += 1
            case .string, .number, .literal: break
            }
            let isContainer = token.isContainer
            if depth == 1, isContainer { return token.isObject }
            if depth == 2, isContainer, member.elementsEqual("data".utf8) { hasData = true }
            // The first element of `errors`.
            if isContainer ? depth == 3 : depth == 2, member.elementsEqual("errors".utf8) { hasErrors = true }
            return !hasData
        }
        return hasErrors && !hasData
    }

    /// Returns whether the query arguments of a target indicate a GraphQL request: it contains a document, identifies a stored one, or has
    /// extensions.
    public static func isAsked(for target: ArraySlice<UInt8>) -> Bool {
        guard let mark = target.firstIndex(of: UInt8(ascii: "?")) else { return false }
        return target[(mark + 1)...].split(separator: UInt8(ascii: "&")).contains { argument in
            // Decoded, and in lower case, because requests with other spellings may have the same cache key.
            let name = PercentCoding.decode(argument.prefix { $0 != UInt8(ascii: "=") }, plusIsSpace: true)
            return name.map { names.contains($0.lowercased()) } ?? false
        }
    }

    private static let names = ["query", "extensions", "documentid", "doc_id"]
}

extension JSONToken {
    fileprivate var isObject: Bool { if case .beginObject = self { true } else { false } }

    fileprivate var isContainer: Bool {
        switch self {
        case .beginArray, .beginObject: true
        case .name, .string, .number, .literal, .endArray, .endObject: false
        }
    }
}

// Detects GraphQL errors, which have status 200. Such an error must not replace a good stored response, even if the route has no rule for
// it.

import HTTPCore
import JSON

public enum GraphQLResponse {
    /// Returns whether the content has errors and no data, for example `PersistedQueryNotFound`. In an array of results, all of them must.
    /// - Parameter content: valid JSON, or its beginning.
    public static func isError(_ content: Span<UInt8>) -> Bool {
        // The depth of a result's members, which is 2 in an array of results.
        var (depth, level, member) = (0, 1, [UInt8]())
        // Whether any result has errors, whether the current one has none, and whether any has data.
        var (hasErrors, hasNone, hasOther) = (false, true, false)
        JSONWalk.through(content) { token, meaning in
            switch token {
            case .name(let range):
                if depth == level { member = meaning(range) }
                return true
            case .endArray: depth -= 1
            case .endObject:
                depth -= 1
                // The end of a result without errors.
                if depth < level, hasNone { hasOther = true }
            case .beginArray where depth == 0: (depth, level) = (1, 2)
            case .beginArray, .beginObject:
                depth += 1
                if depth == level { (hasNone, hasOther) = (true, !token.isObject) }
                if depth == level + 1, member.elementsEqual("data".utf8) { hasOther = true }
                // The first element of `errors`.
                if depth == level + 2, member.elementsEqual("errors".utf8) { (hasErrors, hasNone) = (true, false) }
            case .string, .number, .literal:
                if depth < level { hasOther = true }
                if depth == level + 1, member.elementsEqual("errors".utf8) { (hasErrors, hasNone) = (true, false) }
            }
            return !hasOther
        }
        return hasErrors && !hasOther
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
}

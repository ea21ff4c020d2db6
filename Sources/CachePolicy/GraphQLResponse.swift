// GraphQL's errors, which come with status 200: one of them must not take the place of a good copy, also where no route says so.

import HTTPCore
import JSON

public enum GraphQLResponse {
    /// Whether the content has errors and no data, as `PersistedQueryNotFound` has.
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
            // The first of the errors.
            if isContainer ? depth == 3 : depth == 2, member.elementsEqual("errors".utf8) { hasErrors = true }
            return !hasData
        }
        return hasErrors && !hasData
    }

    /// Whether a request is one of GraphQL by its arguments: it names a document, or has extensions for one that the server knows.
    public static func isAsked(for target: ArraySlice<UInt8>) -> Bool {
        guard let mark = target.firstIndex(of: UInt8(ascii: "?")) else { return false }
        return target[(mark + 1)...].split(separator: UInt8(ascii: "&")).contains { argument in
            let name = argument.prefix { $0 != UInt8(ascii: "=") }
            return names.contains { name.elementsEqual($0.utf8) }
        }
    }

    private static let names = ["query", "extensions", "documentId", "doc_id"]
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

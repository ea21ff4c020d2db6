// Parses multipart form content (RFC 7578) as arguments for cache keys. The boundary and the order of names have no effect. Parsing is
// strict: content that another parser could read differently is rejected, and its bytes are then used unchanged.

import HTTPCore

enum MultipartForm {
    /// Returns the canonical form of the content: parts ordered by name, each with its name, file name, type and content. Each value is
    /// preceded by its length. Returns nil if the content is not an unambiguous form.
    /// - Parameters:
    ///   - type: value of Content-Type.
    ///   - rules: the route's rules for arguments; each part counts as an argument.
    static func canonical(_ content: [UInt8], type: ArraySlice<UInt8>, rules: ArgumentRules?) -> [UInt8]? {
        guard let boundary = boundary(of: type), let contents = split(content, boundary) else { return nil }
        var parts: [Part] = []
        for content in contents {
            guard let part = Part(content, ignoringCase: rules?.ignoresCase ?? false) else { return nil }
            if let rules, !rules.keeps(part.name.span) { continue }
            parts.append(part)
        }
        // Values of one name keep their order, and so do those of one array, as in a query.
        let names = parts.map { part in part.name.firstRange(of: "%5B%5D".utf8).map { part.name[..<$0.upperBound] } ?? part.name[...] }
        let order = parts.indices.sorted {
            names[$0] == names[$1] ? $0 < $1 : names[$0].lexicographicallyPrecedes(names[$1])
        }
        var canonical: [UInt8] = []
        for index in rules?.sorts ?? true ? order : Array(parts.indices) { parts[index].append(to: &canonical) }
        return canonical
    }

    /// nil if there is no boundary, or another parameter.
    private static func boundary(of type: ArraySlice<UInt8>) -> [UInt8]? {
        let members = FieldLists.members(of: type, separator: UInt8(ascii: ";"))
        guard members.count == 2, members[0].map(\.asciiLowercased).elementsEqual("multipart/form-data".utf8),
            let parameter = Parameter(members[1]), parameter.name.elementsEqual("boundary".utf8), (1...70).contains(parameter.value.count)
        else { return nil }
        return Array(parameter.value)
    }

    /// Returns the parts between the delimiters (RFC 2046 §5.1.1); nil if there is text before the first or after the last one.
    private static func split(_ content: [UInt8], _ boundary: [UInt8]) -> [ArraySlice<UInt8>]? {
        let delimiter = [0x0d, 0x0a, 0x2d, 0x2d] + boundary
        guard content.starts(with: delimiter.dropFirst(2)) else { return nil }
        var parts: [ArraySlice<UInt8>] = []
        var position = delimiter.count - 2
        while true {
            let rest = content[position...]
            if rest.elementsEqual("--".utf8) || rest.elementsEqual("--\r\n".utf8) { return parts }
            guard rest.starts(with: "\r\n".utf8) else { return nil }
            let start = position + 2
            guard let end = index(of: delimiter, in: content, from: start) else { return nil }
            parts.append(content[start..<end])
            position = end + delimiter.count
        }
    }

    private static func index(of wanted: [UInt8], in bytes: [UInt8], from start: Int) -> Int? {
        var index = start
        while index + wanted.count <= bytes.count {
            if bytes[index] == wanted[0], bytes[index..<index + wanted.count].elementsEqual(wanted) { return index }
            index += 1
        }
        return nil
    }
}

/// `name=value`, where the value is a token or a quoted string without a backslash. Clients and servers disagree on the meaning of
/// backslashes.
private struct Parameter {
    /// In lower case.
    let name: [UInt8]
    let value: ArraySlice<UInt8>

    init?(_ member: ArraySlice<UInt8>) {
        guard let equals = member.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        name = member[..<equals].map(\.asciiLowercased)
        let given = member[(equals + 1)...]
        if given.count >= 2, given.first == 0x22, given.last == 0x22 {
            value = given.dropFirst().dropLast()
            guard !value.contains(0x22), !value.contains(0x5c) else { return nil }
        } else {
            value = given
            guard !value.isEmpty, value.allSatisfy(isTokenByte) else { return nil }
        }
    }
}

private struct Part {
    /// In the spelling of cache keys.
    let name: [UInt8]
    private var fileName: [UInt8]?
    private var type: [UInt8]?
    private let content: [UInt8]

    /// nil if the part has fields other than Content-Disposition and an optional Content-Type, or malformed ones.
    init?(_ bytes: ArraySlice<UInt8>, ignoringCase: Bool) {
        guard let lines = Self.head(of: bytes) else { return nil }
        var given: [UInt8]?
        for line in lines.lines {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return nil }
            let value = line[(colon + 1)...].trimmed
            switch String(decoding: line[..<colon].map(\.asciiLowercased), as: UTF8.self) {
            case "content-disposition" where given == nil:
                let members = FieldLists.members(of: value, separator: UInt8(ascii: ";"))
                guard members.first?.map(\.asciiLowercased).elementsEqual("form-data".utf8) == true else { return nil }
                for member in members.dropFirst() {
                    guard let parameter = Parameter(member) else { return nil }
                    if parameter.name.elementsEqual("name".utf8), given == nil {
                        given = Array(parameter.value)
                    } else if parameter.name.elementsEqual("filename".utf8), fileName == nil {
                        fileName = Array(parameter.value)
                    } else {
                        return nil
                    }
                }
                guard given != nil else { return nil }
            case "content-type" where type == nil: type = Array(value)
            default: return nil
            }
        }
        guard let given else { return nil }
        let folds = ignoringCase
        var canonical: [UInt8] = []
        CacheKey.appendName(folds ? given.map(\.asciiLowercased) : given, to: &canonical)
        name = canonical
        content = folds && fileName == nil ? lines.content.map(\.asciiLowercased) : Array(lines.content)
    }

    /// Returns the lines before the first empty line, and the content after it.
    private static func head(of bytes: ArraySlice<UInt8>) -> (lines: [ArraySlice<UInt8>], content: ArraySlice<UInt8>)? {
        var lines: [ArraySlice<UInt8>] = []
        var rest = bytes
        while let end = rest.firstIndex(of: 0x0d), end + 1 < rest.endIndex, rest[end + 1] == 0x0a {
            let line = rest[rest.startIndex..<end]
            rest = rest[(end + 2)...]
            if line.isEmpty { return (lines, rest) }
            guard line.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }), line.first != 0x20 else { return nil }
            lines.append(line)
        }
        return nil
    }

    func append(to out: inout [UInt8]) {
        CacheKey.appendPart(name, to: &out)
        for part in [fileName, type] {
            out.append(part == nil ? 0 : 1)
            CacheKey.appendPart(part ?? [], to: &out)
        }
        CacheKey.appendPart(content, to: &out)
    }
}

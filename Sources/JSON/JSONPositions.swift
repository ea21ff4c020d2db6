// Locates parts of a long JSON text without building a value: the elements of an array, and the position of a syntax error.

import HTTPCore

public enum JSONPositions {
    /// Returns the ranges of the elements of an array.
    /// - Parameters:
    ///   - text: text that `JSONTextChecker` accepted as valid.
    ///   - path: names of the members that lead to the array, from the outermost object.
    /// - Returns: nil if the path does not lead to an array.
    public static func elements(of path: [String], in text: Span<UInt8>) -> [Range<Int>]? {
        text.withUnsafeBufferPointer { text in
            var search = ElementSearch(path: path.map { Array($0.utf8) })
            var cursor = JSONCursor(text)
            while let token = cursor.next() {
                guard search.take(token, end: cursor.position, in: text) else { break }
            }
            return search.found
        }
    }

    /// Line and column, starting at 1, of the first invalid byte; of the end if the text is truncated. nil if the text is valid.
    public static func mistake(in text: Span<UInt8>) -> (line: Int, column: Int)? {
        var checker = JSONTextChecker()
        var good = 0
        while good < text.count {
            let before = checker
            let end = min(good + stepBytes, text.count)
            if checker.consume(text.extracting(good..<end)) {
                good = end
                continue
            }
            checker = before
            while checker.consume(text.extracting(good..<(good + 1))) { good += 1 }
            return lineAndColumn(of: good, in: text)
        }
        return [.valid, .validScalar].contains(checker.finish()) ? nil : lineAndColumn(of: text.count, in: text)
    }

    private static let stepBytes = 4_096

    private static func lineAndColumn(of index: Int, in text: Span<UInt8>) -> (line: Int, column: Int) {
        var (line, column) = (1, 1)
        for position in 0..<index {
            if text[position] == 0x0a { (line, column) = (line + 1, 1) } else { column += 1 }
        }
        return (line, column)
    }
}

private struct ElementSearch {
    let path: [[UInt8]]
    private(set) var found: [Range<Int>]?
    private var depth = 0
    /// Number of matched names of the path, each one level deeper than the previous one.
    private var matched = 0
    private var start = 0

    init(path: [[UInt8]]) { self.path = path }

    private var isInArray: Bool { found != nil }
    /// Depth of the array's elements.
    private var elementDepth: Int { path.count + 1 }

    /// - Returns: false if the search is complete.
    mutating func take(_ token: JSONToken, end: Int, in text: UnsafeBufferPointer<UInt8>) -> Bool {
        switch token {
        case .beginObject, .beginArray:
            if isInArray, depth == elementDepth { start = end - 1 }
            depth += 1
            if case .beginArray = token, !isInArray, matched == path.count, depth == elementDepth { found = [] }
        case .endObject, .endArray:
            depth -= 1
            guard isInArray else { return depth > 0 }
            guard depth >= elementDepth else { return false }
            if depth == elementDepth { found?.append(start..<end) }
        case .name(let range):
            guard !isInArray, depth <= matched + 1 else { return true }
            // Otherwise the container of the path has ended without a match.
            guard depth == matched + 1, matched < path.count else { return false }
            if text[range].elementsEqual(path[matched]) { matched += 1 }
        case .string(let range), .number(let range), .literal(let range):
            if isInArray, depth == elementDepth { found?.append(range) }
        }
        return true
    }
}

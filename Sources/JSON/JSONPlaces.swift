// Where things lie in a long JSON text, so that it need not be built as one value: the elements of an array, and the place of a mistake.

import HTTPCore

public enum JSONPlaces {
    /// Where the elements of an array lie.
    /// - Parameters:
    ///   - text: that `JSONTextChecker` has called valid.
    ///   - path: the names of the members that lead to the array, from the outermost object.
    /// - Returns: nil where the path leads to no array.
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

    /// The line and column, from 1, of the first byte that makes a text invalid; of its end where it is cut. nil where it is valid.
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
            return place(of: good, in: text)
        }
        return [.valid, .validScalar].contains(checker.finish()) ? nil : place(of: text.count, in: text)
    }

    private static let stepBytes = 4_096

    private static func place(of index: Int, in text: Span<UInt8>) -> (line: Int, column: Int) {
        var (line, column) = (1, 1)
        for place in 0..<index {
            if text[place] == 0x0a { (line, column) = (line + 1, 1) } else { column += 1 }
        }
        return (line, column)
    }
}

private struct ElementSearch {
    let path: [[UInt8]]
    private(set) var found: [Range<Int>]?
    private var depth = 0
    /// How many names of the path have been met, each one level deeper than the one before.
    private var matched = 0
    private var start = 0

    init(path: [[UInt8]]) { self.path = path }

    private var isInArray: Bool { found != nil }
    /// Of the elements of the array.
    private var elementDepth: Int { path.count + 1 }

    /// - Returns: false where there is nothing more to find.
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
            // Else the path has been left: what its name stands before is not what it leads through.
            guard depth == matched + 1, matched < path.count else { return false }
            if text[range].elementsEqual(path[matched]) { matched += 1 }
        case .string(let range), .number(let range), .literal(let range):
            if isInArray, depth == elementDepth { found?.append(range) }
        }
        return true
    }
}

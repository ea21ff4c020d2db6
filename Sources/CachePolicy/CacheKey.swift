// Builds cache keys (RFC 9111 §2) from method, upstream, path, arguments and other selecting parts. Each part is preceded by its length, so
// different requests never share a key. Clients spell one call differently, so keys are canonical; the upstream receives the client's
// bytes. Works on bytes: `String` took twenty times as long.

import HTTPCore

public enum CacheKey {
    /// Appends the key of a GET or HEAD for `target` to `key`.
    /// - Parameters:
    ///   - authority: scheme, host and port of the upstream.
    ///   - target: path and query as received.
    ///   - partition: 16 bytes if the request carries credentials, else empty.
    ///   - rules: the route's rules for arguments; nil if it has none.
    public static func append(
        to key: inout [UInt8], authority: [UInt8], target: Span<UInt8>, partition: [UInt8] = [], rules: ArgumentRules? = nil
    ) {
        append(to: &key, prefix: prefix(authority: authority, partition: partition), target: target, rules: rules)
    }

    /// Returns the part of a key before the target.
    /// - Parameter extra: values of the fields that the operator added to the key, each with its length.
    public static func prefix(authority: [UInt8], partition: [UInt8] = [], extra: [UInt8] = []) -> [UInt8] {
        var prefix = [UInt8(ascii: "G")]
        appendPart(authority, to: &prefix)
        appendPart(partition, to: &prefix)
        appendPart(extra, to: &prefix)
        return prefix
    }

    public static func append(to key: inout [UInt8], prefix: [UInt8], target: Span<UInt8>, rules: ArgumentRules?) {
        key += prefix
        let bound = KeyWriter.bound(of: target)
        // Two specializations: rules are rare, and copying them would take as long as processing a path.
        if let rules {
            key.append(addingCapacity: bound) { KeyWriter(rules).append(target: target, to: &$0) }
        } else {
            key.append(addingCapacity: bound) { KeyWriter(nil).append(target: target, to: &$0) }
        }
    }

    /// Appends the part that identifies a variant: the marker's generation and the values of the selecting fields.
    public static func appendVariant(to key: inout [UInt8], generation: UInt64, selecting: [UInt8]) {
        key.append(UInt8(ascii: "V"))
        key.append(littleEndian: generation)
        key += selecting
    }

    /// Appends form content as if it were the query of a target.
    static func appendArguments(_ content: Span<UInt8>, to out: inout [UInt8], rules: ArgumentRules?) {
        // Dropped arguments apply to the target only; the upstream receives the content unchanged.
        out.append(addingCapacity: KeyWriter.bound(of: content)) { KeyWriter(rules).append(query: content, isOfTarget: false, to: &$0) }
    }

    /// Appends an argument's name as a client encodes it, in the spelling of keys.
    static func appendArgumentName(_ name: [UInt8], to out: inout [UInt8]) {
        out.append(addingCapacity: name.count * 3) { KeyWriter(nil).append(argument: name.span, to: &$0) }
    }

    /// Appends a decoded name in the spelling of keys.
    static func appendName(_ name: [UInt8], to out: inout [UInt8]) {
        out.append(addingCapacity: name.count * 3) { KeyWriter(nil).append(name: name.span, to: &$0) }
    }

    /// Appends a path, or a part of one, in the spelling of keys.
    static func appendPath(_ path: [UInt8], to out: inout [UInt8]) {
        out.append(addingCapacity: path.count * 3) { KeyWriter(nil).append(path: path.span, to: &$0) }
    }

    /// Appends a part preceded by its length, so that different lists of parts have different bytes.
    public static func appendPart(_ part: [UInt8], to key: inout [UInt8]) { appendPart(part[...], to: &key) }

    public static func appendPart(_ part: ArraySlice<UInt8>, to key: inout [UInt8]) {
        key.append(littleEndian: UInt32(part.count))
        key += part
    }
}

/// Writes the canonical form of a target into memory that is known to be large enough.
private struct KeyWriter {
    private let rules: ArgumentRules?
    private let lowersArguments: Bool
    private let keepsEmptyQuery: Bool

    private static let lengthBytes = 4
    /// Maximum number of arguments sorted by insertion; longer lists use additional memory.
    private static let fewArguments = 64

    /// Upper bound of the output. A byte becomes three at most, or begins an argument, which has a length. The path and the last argument
    /// have lengths too.
    static func bound(of target: Span<UInt8>) -> Int { 4 * target.count + 2 * lengthBytes + 1 }

    @inline(__always)
    init(_ rules: ArgumentRules?) {
        self.rules = rules
        lowersArguments = rules?.ignoresCase ?? false
        keepsEmptyQuery = rules?.keepsEmptyQuery ?? false
    }

    /// Appends a name in which no byte has a special meaning.
    func append(name: Span<UInt8>, to out: inout OutputSpan<UInt8>) {
        for index in name.indices {
            if Self.isUnreserved(name[index]) { out.append(name[index]) } else { Self.appendEncoded(name[index], to: &out) }
        }
    }

    func append(target: Span<UInt8>, to out: inout OutputSpan<UInt8>) {
        let question = target.first(UInt8(ascii: "?")) ?? target.count
        let path = Self.reserveLength(in: &out)
        append(path: target.extracting(0..<question), to: &out)
        Self.setLength(from: path, in: &out)
        // An empty query is equal to no query, unless the rules keep it.
        guard question + (keepsEmptyQuery ? 0 : 1) < target.count else { return }
        append(query: target.extracting((question + 1)...), isOfTarget: true, to: &out)
    }

    func append(query: Span<UInt8>, isOfTarget: Bool, to out: inout OutputSpan<UInt8>) {
        out.append(UInt8(ascii: "?"))
        appendArguments(query, isOfTarget, to: &out)
    }

    private static func reserveLength(in out: inout OutputSpan<UInt8>) -> Int {
        out.append(repeating: 0, count: lengthBytes)
        return out.count
    }

    /// Ends a part and writes its length before `start`.
    private static func setLength(from start: Int, in out: inout OutputSpan<UInt8>) {
        out.set(littleEndian: UInt32(out.count - start), at: start - lengthBytes)
    }

    // MARK: Arguments

    /// Offsets of an argument in the output: of its length, of its text, of the end of its name, and of its end.
    private struct Piece {
        var start: Int
        var text: Int { start + KeyWriter.lengthBytes }
        var name: Int
        var end: Int

        var isNameless: Bool { name == end }
    }

    /// Appends the arguments ordered by name, each as its length and canonical text. Values of one name or array keep their order, and so
    /// do arguments without `=`.
    private func appendArguments(_ query: Span<UInt8>, _ isOfTarget: Bool, to out: inout OutputSpan<UInt8>) {
        let first = out.count
        var last: Piece?
        var (argumentCount, isSorted) = (0, true)
        var start = 0
        while start <= query.count {
            let end = query.first(UInt8(ascii: "&"), from: start) ?? query.count
            let piece = appendArgument(query.extracting(start..<end), to: &out)
            start = end + 1
            guard isKept(piece, isOfTarget, in: out.span) else {
                out.removeLast(piece.end - piece.start)
                continue
            }
            if let last, Self.isLess(piece, last, in: out.span) { isSorted = false }
            last = piece
            argumentCount += 1
        }
        // All arguments are ignored: the key equals that of a target without a query.
        if argumentCount == 0 { return out.removeLast(1) }
        if !isSorted, rules?.sorts ?? true { Self.sort(from: first, argumentCount, in: &out) }
    }

    private func isKept(_ piece: Piece, _ isOfTarget: Bool, in out: Span<UInt8>) -> Bool {
        guard let rules, rules.ignoresSome else { return true }
        let name = out.extracting(piece.text..<piece.name)
        if isOfTarget, rules.drops(name) { return false }
        return rules.keeps(name, of: out.extracting(piece.text..<piece.end))
    }

    /// Sorts stably. Insertion sort, because lists are short and mostly sorted.
    private static func sort(from first: Int, _ argumentCount: Int, in out: inout OutputSpan<UInt8>) {
        guard argumentCount <= fewArguments else {
            let sorted = sortedPieces(in: out.span, from: first)
            return rearrange(sorted.span, from: first, in: &out)
        }
        withTemporaryMemory(of: Piece.self, capacity: argumentCount) { pieces in
            var start = first
            while start < out.count {
                let piece = piece(at: start, in: out.span)
                start = piece.end
                pieces.append(piece)
                var index = pieces.count - 1
                while index > 0, isLess(piece, pieces[index - 1], in: out.span) {
                    pieces[index] = pieces[index - 1]
                    index -= 1
                }
                pieces[index] = piece
            }
            rearrange(pieces.span, from: first, in: &out)
        }
    }

    private static func sortedPieces(in out: Span<UInt8>, from first: Int) -> [Piece] {
        var pieces: [Piece] = []
        var start = first
        while start < out.count {
            let piece = piece(at: start, in: out)
            pieces.append(piece)
            start = piece.end
        }
        return pieces.sorted { isLess($0, $1, in: out) || (!isLess($1, $0, in: out) && $0.start < $1.start) }
    }

    /// Returns a written argument. An equals sign in its name or its value is encoded.
    private static func piece(at start: Int, in out: Span<UInt8>) -> Piece {
        let text = start + lengthBytes
        let end = text + Int(out.littleEndian(at: start, as: UInt32.self))
        let name = out.extracting(text..<end).first(UInt8(ascii: "=")).map { text + $0 }
        return Piece(start: start, name: name ?? end, end: end)
    }

    private static func rearrange(_ pieces: Span<Piece>, from first: Int, in out: inout OutputSpan<UInt8>) {
        withTemporaryMemory(of: UInt8.self, capacity: out.count - first) { unsorted in
            unsorted.append(copying: out.span.extracting(first...))
            out.removeLast(unsorted.count)
            for index in pieces.indices {
                let piece = pieces[index]
                out.append(copying: unsorted.span.extracting(piece.start - first..<piece.end - first))
            }
        }
    }

    /// Arguments without `=` come first and keep their order: they have no name, so their position may be significant.
    private static func isLess(_ left: Piece, _ right: Piece, in out: Span<UInt8>) -> Bool {
        if left.isNameless || right.isNameless { return left.isNameless && !right.isNameless }
        return out.extracting(left.text..<endOfOrder(left, in: out)).precedes(out.extracting(right.text..<endOfOrder(right, in: out)))
    }

    /// Returns the end of the part of a name that determines its order: its first `[]`. Servers add to an array there, so the order of
    /// `a[][x]` and `a[][y]` determines which of their values form one element.
    private static func endOfOrder(_ piece: Piece, in out: Span<UInt8>) -> Int {
        var start = piece.text
        while let percent = out.first(UInt8(ascii: "%"), from: start), percent + 6 <= piece.name {
            if out.extracting(percent..<(percent + 6)).equals("%5B%5D") { return percent + 6 }
            start = percent + 3
        }
        return piece.name
    }

    /// Appends `name=value` in canonical form. `name` without `=` stays different from `name=`.
    private func appendArgument(_ argument: Span<UInt8>, to out: inout OutputSpan<UInt8>) -> Piece {
        let equals = argument.first(UInt8(ascii: "=")) ?? argument.count
        let start = Self.reserveLength(in: &out)
        append(argument: argument.extracting(0..<equals), to: &out)
        let name = out.count
        if equals < argument.count {
            out.append(UInt8(ascii: "="))
            append(argument: argument.extracting((equals + 1)...), to: &out)
        }
        Self.setLength(from: start, in: &out)
        return Piece(start: start - Self.lengthBytes, name: name, end: out.count)
    }

    // MARK: Percent-encoding

    // Canonical percent-encoding (RFC 3986 §6.2.2): unreserved characters plain, hexadecimal digits in upper case.

    /// Only unreserved characters are decoded: `%2F` and `/` as well as `%3B` and `;` stay different, because upstreams distinguish them.
    func append(path: Span<UInt8>, to out: inout OutputSpan<UInt8>) {
        var start = 0
        while let percent = path.first(UInt8(ascii: "%"), from: start) {
            out.append(copying: path.extracting(start..<percent))
            start = percent + 1
            start += appendDecoded(path, at: start, isArgument: false, to: &out)
        }
        out.append(copying: path.extracting(start...))
    }

    /// A plus is a space, and every character without structural meaning is encoded.
    func append(argument text: Span<UInt8>, to out: inout OutputSpan<UInt8>) {
        var index = 0
        while index < text.count {
            let byte = text[index]
            index += 1
            if Self.isUnreserved(byte) {
                out.append(folded(byte))
            } else if byte == UInt8(ascii: "%") {
                index += appendDecoded(text, at: index, isArgument: true, to: &out)
            } else if byte != UInt8(ascii: ";") {
                Self.appendEncoded(byte == UInt8(ascii: "+") ? 0x20 : byte, to: &out)
            } else {
                out.append(byte)
            }
        }
    }

    /// Appends what follows a percent sign; returns the number of bytes consumed.
    private func appendDecoded(_ text: Span<UInt8>, at index: Int, isArgument: Bool, to out: inout OutputSpan<UInt8>) -> Int {
        guard index + 1 < text.count, let high = text[index].hexValue, let low = text[index + 1].hexValue else {
            // A stray percent sign is doubled, so that it cannot be confused with `%25` or combine with the next characters. Otherwise
            // `%%32%46` and `%2F` would have one key.
            out.append(UInt8(ascii: "%"))
            out.append(UInt8(ascii: "%"))
            return 0
        }
        let value = high << 4 | low
        if Self.isUnreserved(value) { out.append(isArgument ? folded(value) : value) } else { Self.appendEncoded(value, to: &out) }
        return 2
    }

    private func folded(_ byte: UInt8) -> UInt8 { lowersArguments ? byte.asciiLowercased : byte }

    private static func appendEncoded(_ byte: UInt8, to out: inout OutputSpan<UInt8>) {
        out.append(UInt8(ascii: "%"))
        out.append(hexDigit(byte >> 4))
        out.append(hexDigit(byte & 15))
    }

    static func hexDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x37 + value }

    /// Unreserved characters (RFC 3986 §2.3), one bit each: digits, `-`, `.` in the first word; letters, `_`, `~` in the second.
    @inline(__always)
    static func isUnreserved(_ byte: UInt8) -> Bool {
        let bits: UInt64 = byte < 64 ? 0x03ff_6000_0000_0000 : 0x47ff_fffe_87ff_fffe
        return byte < 128 && bits &>> UInt64(byte & 63) & 1 != 0
    }
}

extension CacheKey {
    /// Whether a path is spelled as in the key.
    public static func isCanonical(path: ArraySlice<UInt8>) -> Bool {
        var rest = path
        while let percent = rest.firstIndex(of: UInt8(ascii: "%")) {
            rest = rest[(percent + 1)...]
            guard let first = rest.first, let second = rest.dropFirst().first, let high = first.hexValue, let low = second.hexValue else {
                continue
            }
            if KeyWriter.isUnreserved(high << 4 | low) || first != KeyWriter.hexDigit(high) || second != KeyWriter.hexDigit(low) {
                return false
            }
        }
        return true
    }
}

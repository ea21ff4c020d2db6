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
        // Two specializations: nearly always there are no rules, and copying them would take as long as processing a path.
        if let rules { append(target, to: &key) { KeyWriter($0, rules) } } else { append(target, to: &key) { KeyWriter($0, nil) } }
    }

    @inline(__always)
    private static func append(
        _ target: Span<UInt8>, to key: inout [UInt8], _ makeWriter: (UnsafeMutableBufferPointer<UInt8>) -> KeyWriter
    ) {
        key.append(addingCapacity: KeyWriter.bound(of: target)) { output in
            output.withUnsafeMutableBufferPointer { buffer, written in
                var writer = makeWriter(buffer)
                writer.append(target: target)
                written = writer.count
            }
        }
    }

    /// Appends the part that identifies a variant: the marker's generation and the values of the selecting fields.
    public static func appendVariant(to key: inout [UInt8], generation: UInt64, selecting: [UInt8]) {
        key.append(UInt8(ascii: "V"))
        withUnsafeBytes(of: generation.littleEndian) { key.append(contentsOf: $0) }
        key += selecting
    }

    /// Appends form content as if it were the query of a target.
    static func appendArguments(_ content: Span<UInt8>, to out: inout [UInt8], rules: ArgumentRules?) {
        // Dropped arguments apply to the target only; the upstream receives the content unchanged.
        write(to: &out, atMost: KeyWriter.bound(of: content), rules) { $0.append(query: content, isOfTarget: false) }
    }

    /// Appends an argument's name as a client encodes it, in the spelling of keys.
    static func appendArgumentName(_ name: [UInt8], to out: inout [UInt8]) {
        write(to: &out, atMost: name.count * 3) { $0.append(argumentName: name.span) }
    }

    /// Appends a decoded name in the spelling of keys.
    static func appendName(_ name: [UInt8], to out: inout [UInt8]) {
        write(to: &out, atMost: name.count * 3) { $0.append(name: name.span) }
    }

    /// Appends a path, or a part of one, in the spelling of keys.
    static func appendPath(_ path: [UInt8], to out: inout [UInt8]) {
        write(to: &out, atMost: path.count * 3) { $0.append(path: path.span) }
    }

    private static func write(
        to out: inout [UInt8], atMost count: Int, _ rules: ArgumentRules? = nil, _ append: (inout KeyWriter) -> Void
    ) {
        out.append(addingCapacity: count) { output in
            output.withUnsafeMutableBufferPointer { buffer, written in
                guard buffer.baseAddress != nil else { return }
                var writer = KeyWriter(buffer, rules)
                append(&writer)
                written = writer.count
            }
        }
    }

    /// Appends a part preceded by its length, so that different lists of parts have different bytes.
    public static func appendPart(_ part: [UInt8], to key: inout [UInt8]) {
        withUnsafeBytes(of: UInt32(part.count).littleEndian) { key.append(contentsOf: $0) }
        key += part
    }
}

/// Writes the canonical form of a target into memory that is known to be large enough. Checking the capacity at each byte took half of the
/// time.
private struct KeyWriter {
    private let out: UnsafeMutablePointer<UInt8>
    private(set) var count = 0
    private let rules: ArgumentRules?
    private let lowersArguments: Bool
    private let keepsEmptyQuery: Bool

    private static let lengthBytes = 4
    /// Maximum number of arguments sorted in place by insertion; longer lists use additional memory.
    private static let fewArguments = 64

    /// Upper bound of the output. A byte becomes three at most, or begins an argument, which has a length. The path and the last argument
    /// have lengths too.
    static func bound(of target: Span<UInt8>) -> Int { 4 * target.count + 2 * lengthBytes + 1 }

    init(_ buffer: UnsafeMutableBufferPointer<UInt8>, _ rules: ArgumentRules?) {
        guard let base = buffer.baseAddress else { preconditionFailure("a key has no room") }
        out = base
        self.rules = rules
        lowersArguments = rules?.ignoresCase ?? false
        keepsEmptyQuery = rules?.keepsEmptyQuery ?? false
    }

    /// Appends a name in which no byte has a special meaning.
    mutating func append(name: Span<UInt8>) {
        for index in name.indices {
            if Self.isUnreserved(name[index]) { append(byte: name[index]) } else { appendEncoded(name[index]) }
        }
    }

    mutating func append(path: Span<UInt8>) { appendCanonical(path, isArgument: false) }

    mutating func append(argumentName name: Span<UInt8>) { appendCanonical(name, isArgument: true) }

    mutating func append(target: Span<UInt8>) {
        let question = Self.index(of: UInt8(ascii: "?"), in: target, from: 0)
        let path = reserveLength()
        append(path: target.extracting(0..<question))
        setLength(from: path)
        // An empty query is equal to no query, unless the rules keep it.
        guard question + (keepsEmptyQuery ? 0 : 1) < target.count else { return }
        append(query: target.extracting((question + 1)...), isOfTarget: true)
    }

    mutating func append(query: Span<UInt8>, isOfTarget: Bool) {
        append(byte: UInt8(ascii: "?"))
        appendArguments(query, isOfTarget)
    }

    private static func index(of byte: UInt8, in text: Span<UInt8>, from start: Int) -> Int {
        var index = start
        while index < text.count, text[index] != byte { index += 1 }
        return index
    }

    private mutating func append(byte: UInt8) {
        out[count] = byte
        count += 1
    }

    private mutating func reserveLength() -> Int {
        count += Self.lengthBytes
        return count
    }

    /// Ends a part and writes its length before `start`.
    private func setLength(from start: Int) {
        let length = UInt32(count - start).littleEndian
        UnsafeMutableRawPointer(out + start - Self.lengthBytes).storeBytes(of: length, as: UInt32.self)
    }

    // MARK: Arguments

    private struct Piece {
        /// Offsets of the length, of the end of the name, and of the end of the argument.
        var start = 0
        var name = 0
        var end = 0

        var isNameless: Bool { name == end }
    }

    /// Appends the arguments ordered by name, each as its length and canonical text. Values of one name keep their order, and so do
    /// arguments without `=`.
    private mutating func appendArguments(_ query: Span<UInt8>, _ isOfTarget: Bool) {
        let first = count
        var total = 1
        for index in query.indices where query[index] == UInt8(ascii: "&") { total += 1 }
        withUnsafeTemporaryAllocation(of: Piece.self, capacity: total) { pieces in
            var pieceCount = 0
            var isSorted = true
            var start = 0
            while start <= query.count {
                let end = Self.index(of: UInt8(ascii: "&"), in: query, from: start)
                let piece = appendArgument(query.extracting(start..<end))
                start = end + 1
                guard isKept(piece, isOfTarget) else {
                    count = piece.start
                    continue
                }
                if pieceCount > 0, isLess(piece, pieces[pieceCount - 1]) { isSorted = false }
                pieces.initializeElement(at: pieceCount, to: piece)
                pieceCount += 1
            }
            // All arguments are ignored: the key equals that of a target without a query.
            if pieceCount == 0 {
                count = first - 1
                return
            }
            if !isSorted, rules?.sorts ?? true { sort(UnsafeMutableBufferPointer(rebasing: pieces[..<pieceCount]), from: first) }
        }
    }

    private func isKept(_ piece: Piece, _ isOfTarget: Bool) -> Bool {
        guard let rules, rules.ignoresSome else { return true }
        let start = piece.start + Self.lengthBytes
        let name = UnsafeBufferPointer(start: out + start, count: piece.name - start)
        if isOfTarget, rules.drops(name) { return false }
        return rules.keeps(name, of: UnsafeBufferPointer(start: out + start, count: piece.end - start))
    }

    /// Sorts stably. Insertion sort, because lists are short and mostly sorted.
    private func sort(_ pieces: UnsafeMutableBufferPointer<Piece>, from first: Int) {
        guard pieces.count <= Self.fewArguments else {
            let sorted = pieces.sorted { isLess($0, $1) || (!isLess($1, $0) && $0.start < $1.start) }
            return rearrange(sorted, from: first)
        }
        for index in 1..<pieces.count {
            let piece = pieces[index]
            var position = index
            while position > 0, isLess(piece, pieces[position - 1]) {
                pieces[position] = pieces[position - 1]
                position -= 1
            }
            pieces[position] = piece
        }
        rearrange(pieces, from: first)
    }

    private func rearrange(_ pieces: some Sequence<Piece>, from first: Int) {
        let length = count - first
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: length) { unsorted in
            guard let copy = unsorted.baseAddress else { return }
            copy.initialize(from: out + first, count: length)
            var target = first
            for piece in pieces {
                (out + target).update(from: copy + piece.start - first, count: piece.end - piece.start)
                target += piece.end - piece.start
            }
        }
    }

    /// Arguments without `=` come first and keep their order: they have no name, so their position may be significant.
    private func isLess(_ left: Piece, _ right: Piece) -> Bool {
        if left.isNameless || right.isNameless { return left.isNameless && !right.isNameless }
        let leftStart = left.start + Self.lengthBytes
        let rightStart = right.start + Self.lengthBytes
        let (leftCount, rightCount) = (left.name - leftStart, right.name - rightStart)
        for index in 0..<min(leftCount, rightCount) where out[leftStart + index] != out[rightStart + index] {
            return out[leftStart + index] < out[rightStart + index]
        }
        return leftCount < rightCount
    }

    /// Appends `name=value` in canonical form. `name` without `=` stays different from `name=`.
    private mutating func appendArgument(_ argument: Span<UInt8>) -> Piece {
        let equals = Self.index(of: UInt8(ascii: "="), in: argument, from: 0)
        let start = reserveLength()
        appendCanonical(argument.extracting(0..<equals), isArgument: true)
        let name = count
        if equals < argument.count {
            append(byte: UInt8(ascii: "="))
            appendCanonical(argument.extracting((equals + 1)...), isArgument: true)
        }
        setLength(from: start)
        return Piece(start: start - Self.lengthBytes, name: name, end: count)
    }

    // MARK: Percent-encoding

    /// Appends text with canonical percent-encoding (RFC 3986 §6.2.2): unreserved characters plain, hexadecimal digits in upper case. In an
    /// argument, a plus is a space, and every character without structural meaning is encoded. In a path, only unreserved characters are
    /// decoded: `%2F` and `/` as well as `%3B` and `;` stay different, because upstreams distinguish them.
    private mutating func appendCanonical(_ text: Span<UInt8>, isArgument: Bool) {
        var index = 0
        while index < text.count {
            let byte = text[index]
            index += 1
            if Self.isUnreserved(byte) {
                append(byte: isArgument ? folded(byte) : byte)
            } else if byte == UInt8(ascii: "%") {
                index += appendDecoded(text, at: index, isArgument)
            } else if isArgument, byte != UInt8(ascii: ";") {
                appendEncoded(byte == UInt8(ascii: "+") ? 0x20 : byte)
            } else {
                append(byte: byte)
            }
        }
    }

    /// Appends what follows a percent sign; returns the number of bytes consumed.
    private mutating func appendDecoded(_ text: Span<UInt8>, at index: Int, _ isArgument: Bool) -> Int {
        guard index + 1 < text.count, let high = text[index].hexValue, let low = text[index + 1].hexValue else {
            // A stray percent sign is doubled, so that it cannot be confused with `%25` or combine with the next characters. Otherwise
            // `%%32%46` and `%2F` would have one key.
            append(byte: UInt8(ascii: "%"))
            append(byte: UInt8(ascii: "%"))
            return 0
        }
        let value = high << 4 | low
        if Self.isUnreserved(value) { append(byte: isArgument ? folded(value) : value) } else { appendEncoded(value) }
        return 2
    }

    private func folded(_ byte: UInt8) -> UInt8 { lowersArguments ? byte.asciiLowercased : byte }

    private mutating func appendEncoded(_ byte: UInt8) {
        append(byte: UInt8(ascii: "%"))
        append(byte: Self.hexDigit(byte >> 4))
        append(byte: Self.hexDigit(byte & 15))
    }

    private static func hexDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x37 + value }

    /// Unreserved characters (RFC 3986 §2.3), one bit each: digits, `-`, `.` in the first word; letters, `_`, `~` in the second.
    @inline(__always)
    private static func isUnreserved(_ byte: UInt8) -> Bool {
        let bits: UInt64 = byte < 64 ? 0x03ff_6000_0000_0000 : 0x47ff_fffe_87ff_fffe
        return byte < 128 && bits &>> UInt64(byte & 63) & 1 != 0
    }
}

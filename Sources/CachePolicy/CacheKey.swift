// The cache key (RFC 9111 §2): method, upstream, path, arguments, and what else decides about the response. Every part is preceded by its
// length, so two different requests never have one key. The same call is spelt differently by each client, so the key is canonical; the
// upstream gets the client's own bytes. Bytes only: with `String` this took twenty times as long.

import HTTPCore

public enum CacheKey {
    /// Appends the key of a GET or HEAD of `target` to `key`.
    /// - Parameters:
    ///   - authority: scheme, host and port of the upstream.
    ///   - target: path and query as received.
    ///   - partition: 16 bytes where the request carries credentials, else empty.
    ///   - rules: what the target's route says of arguments.
    public static func append(
        to key: inout [UInt8], authority: [UInt8], target: Span<UInt8>, partition: [UInt8] = [], rules: ArgumentRules? = nil
    ) {
        append(to: &key, prefix: prefix(authority: authority, partition: partition), target: target, rules: rules)
    }

    /// What comes before the target.
    /// - Parameter extra: values of the fields that the operator made part of the key, each with its length.
    public static func prefix(authority: [UInt8], partition: [UInt8] = [], extra: [UInt8] = []) -> [UInt8] {
        var prefix = [UInt8(ascii: "G")]
        appendPart(authority, to: &prefix)
        appendPart(partition, to: &prefix)
        appendPart(extra, to: &prefix)
        return prefix
    }

    public static func append(to key: inout [UInt8], prefix: [UInt8], target: Span<UInt8>, rules: ArgumentRules?) {
        key += prefix
        // Nearly always there are none, and even then copying them would take as long as a path.
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

    /// The key of one variant of a stored response: the key, the marker's generation, and the selecting fields' values.
    public static func appendVariant(to key: inout [UInt8], generation: UInt64, selecting: [UInt8]) {
        key.append(UInt8(ascii: "V"))
        withUnsafeBytes(of: generation.littleEndian) { key.append(contentsOf: $0) }
        key += selecting
    }

    /// Form content, as if it were a target's query.
    static func appendArguments(_ content: Span<UInt8>, to out: inout [UInt8], rules: ArgumentRules?) {
        // The upstream gets the content as it came.
        write(to: &out, atMost: KeyWriter.bound(of: content), rules) { $0.append(query: content, isOfTarget: false) }
    }

    /// An argument's name as a client spells it, in the spelling that it has in keys.
    static func appendArgumentName(_ name: [UInt8], to out: inout [UInt8]) {
        write(to: &out, atMost: name.count * 3) { $0.append(argumentName: name.span) }
    }

    /// A name in the spelling that it has in keys.
    static func appendName(_ name: [UInt8], to out: inout [UInt8]) {
        write(to: &out, atMost: name.count * 3) { $0.append(name: name.span) }
    }

    /// A path, or a part of one, in the spelling that it has in keys.
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

    /// A part with its length before it: so that no two lists of parts are alike.
    public static func appendPart(_ part: [UInt8], to key: inout [UInt8]) {
        withUnsafeBytes(of: UInt32(part.count).littleEndian) { key.append(contentsOf: $0) }
        key += part
    }
}

/// Writes a target's canonical form into memory that is known to be large enough: checking for room at each byte took half of the time.
private struct KeyWriter {
    private let out: UnsafeMutablePointer<UInt8>
    private(set) var count = 0
    private let rules: ArgumentRules?
    private let lowersArguments: Bool
    private let keepsEmptyQuery: Bool

    private static let lengthBytes = 4
    /// So many are sorted in place; for more there is memory of their own.
    private static let fewArguments = 64

    /// A byte becomes three at most, or begins an argument, which has a length; so have the path and the last argument.
    static func bound(of target: Span<UInt8>) -> Int { 4 * target.count + 2 * lengthBytes + 1 }

    init(_ buffer: UnsafeMutableBufferPointer<UInt8>, _ rules: ArgumentRules?) {
        guard let base = buffer.baseAddress else { preconditionFailure("a key has no room") }
        out = base
        self.rules = rules
        lowersArguments = rules?.ignoresCase ?? false
        keepsEmptyQuery = rules?.keepsEmptyQuery ?? false
    }

    /// Each byte stands for itself.
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
        // A question mark with nothing behind it asks for nothing more.
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

    /// The part ends here; its length goes before `start`.
    private func setLength(from start: Int) {
        let length = UInt32(count - start).littleEndian
        UnsafeMutableRawPointer(out + start - Self.lengthBytes).storeBytes(of: length, as: UInt32.self)
    }

    // MARK: Arguments

    private struct Piece {
        /// Offsets: of the length, of the byte behind the name, and behind the whole.
        var start = 0
        var name = 0
        var end = 0

        var isNameless: Bool { name == end }
    }

    /// Arguments in the order of their names; the values of one name stay in their order, and so do those without a name. Each is its length, then the canonical text.
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
            // Nothing but arguments that make no difference: the same as none.
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

    /// Insertion keeps equal names in their order; lists are short and mostly sorted.
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

    /// Those without `=` come first, in their own order: they have no names, so where they stand may be what they mean.
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

    /// `name=value` in one spelling. `name` without `=` stays different from `name=`.
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

    /// Percent-encoding in one spelling (RFC 3986 §6.2.2): unreserved characters plain, hexadecimal digits in upper case. In an argument a
    /// plus is a space, and everything else that has no meaning for the structure is encoded, whether it came so or not. In a path only
    /// what is unreserved is decoded: `%2F` and `/`, `%3B` and `;` stay apart, since upstreams tell them apart.
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

    /// What follows a percent sign; returns how many bytes of it were taken.
    private mutating func appendDecoded(_ text: Span<UInt8>, at index: Int, _ isArgument: Bool) -> Int {
        guard index + 1 < text.count, let high = text[index].hexValue, let low = text[index + 1].hexValue else {
            // A percent sign that encodes nothing is written so that neither a `%25` nor what follows can be taken for it: without that,
            // `%%32%46` and `%2F` would be one key.
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

    /// RFC 3986 §2.3, a bit for each: digits, `-`, `.`; letters, `_`, `~`.
    @inline(__always)
    private static func isUnreserved(_ byte: UInt8) -> Bool {
        let bits: UInt64 = byte < 64 ? 0x03ff_6000_0000_0000 : 0x47ff_fffe_87ff_fffe
        return byte < 128 && bits &>> UInt64(byte & 63) & 1 != 0
    }
}

// The cache key (RFC 9111 §2): method, upstream, path, arguments, and what else decides about the answer. Every part is preceded by its
// length, so two different requests never have one key. The same call is spelt differently by each client, so the key is canonical; the
// upstream gets the client's own bytes. Bytes only: with `String` this took twenty times as long.

import HTTPCore

package enum CacheKey {
    /// Appends the key of a GET or HEAD of `target` to `key`.
    /// - Parameters:
    ///   - authority: scheme, host and port of the upstream.
    ///   - target: path and query as received.
    ///   - partition: 16 bytes where the request carries credentials, else empty.
    ///   - extra: values of the fields that the operator made part of the key, each with its length.
    package static func append(
        to key: inout [UInt8], authority: [UInt8], target: Span<UInt8>, partition: [UInt8] = [], extra: [UInt8] = []
    ) {
        key.append(UInt8(ascii: "G"))
        appendPart(authority, to: &key)
        appendPart(partition, to: &key)
        appendPart(extra, to: &key)
        var question = 0
        while question < target.count, target[question] != UInt8(ascii: "?") { question += 1 }
        let pathLength = reserveLength(&key)
        appendCanonical(target.extracting(0..<question), plusIsSpace: false, to: &key)
        setLength(&key, at: pathLength)
        guard question < target.count else { return }
        key.append(UInt8(ascii: "?"))
        appendArguments(target.extracting((question + 1)...), to: &key)
    }

    /// The key of one variant of a stored answer: the key, the marker's generation, and the selecting fields' values.
    package static func appendVariant(to key: inout [UInt8], generation: UInt64, selecting: [UInt8]) {
        key.append(UInt8(ascii: "V"))
        withUnsafeBytes(of: generation.littleEndian) { key.append(contentsOf: $0) }
        key += selecting
    }

    static func appendPart(_ part: [UInt8], to key: inout [UInt8]) {
        appendLength(part.count, to: &key)
        key += part
    }

    private static func appendLength(_ length: Int, to key: inout [UInt8]) {
        key.append(UInt8(truncatingIfNeeded: length))
        key.append(UInt8(truncatingIfNeeded: length >> 8))
    }

    private static func reserveLength(_ key: inout [UInt8]) -> Int {
        appendLength(0, to: &key)
        return key.count
    }

    /// The part ends here; its length goes before `start`.
    private static func setLength(_ key: inout [UInt8], at start: Int) {
        let length = key.count - start
        key[start - 2] = UInt8(truncatingIfNeeded: length)
        key[start - 1] = UInt8(truncatingIfNeeded: length >> 8)
    }

    /// Arguments in the order of their names; the values of one name stay in their order. Each is its length, then the canonical text.
    private static func appendArguments(_ query: Span<UInt8>, to key: inout [UInt8]) {
        let first = key.count
        var pieces = InlineArray<64, Piece>(repeating: Piece())
        var count = 0
        var start = 0
        while start <= query.count {
            var end = start
            while end < query.count, query[end] != UInt8(ascii: "&") { end += 1 }
            let begin = reserveLength(&key)
            let name = appendArgument(query.extracting(start..<end), to: &key)
            setLength(&key, at: begin)
            if count < 64 { pieces[count] = Piece(start: begin - 2, name: name, end: key.count) }
            count += 1
            start = end + 1
        }
        // More than 64 arguments keep the order they came in: still a correct key, only less forgiving.
        guard count > 1, count <= 64 else { return }
        sort(&key, from: first, &pieces, count)
    }

    private struct Piece {
        /// Offsets in the key: of the length, of the byte behind the name, and behind the whole.
        var start = 0
        var name = 0
        var end = 0
    }

    private static func sort(_ key: inout [UInt8], from first: Int, _ pieces: inout InlineArray<64, Piece>, _ count: Int) {
        var isSorted = true
        for index in 1..<count {
            // Insertion keeps equal names in their order; lists are short and mostly sorted.
            let piece = pieces[index]
            var position = index
            while position > 0, isLess(key, piece, pieces[position - 1]) {
                pieces[position] = pieces[position - 1]
                position -= 1
                isSorted = false
            }
            pieces[position] = piece
        }
        guard !isSorted else { return }
        let unsorted = Array(key[first...])
        key.removeSubrange(first...)
        for index in 0..<count {
            key += unsorted[(pieces[index].start - first)..<(pieces[index].end - first)]
        }
    }

    private static func isLess(_ key: [UInt8], _ left: Piece, _ right: Piece) -> Bool {
        key[(left.start + 2)..<left.name].lexicographicallyPrecedes(key[(right.start + 2)..<right.name])
    }

    /// `name=value` in one spelling; returns the offset behind the name. `name` without `=` stays different from `name=`.
    private static func appendArgument(_ argument: Span<UInt8>, to key: inout [UInt8]) -> Int {
        var equals = 0
        while equals < argument.count, argument[equals] != UInt8(ascii: "=") { equals += 1 }
        appendCanonical(argument.extracting(0..<equals), plusIsSpace: true, to: &key)
        let nameEnd = key.count
        if equals < argument.count {
            key.append(UInt8(ascii: "="))
            appendCanonical(argument.extracting((equals + 1)...), plusIsSpace: true, to: &key)
        }
        return nameEnd
    }

    /// Percent-encoding in one spelling (RFC 3986 §6.2.2): unreserved characters plain, hexadecimal digits in upper case; in a query,
    /// everything else that has no meaning for its structure is encoded, whether it came so or not. In a path only what is unreserved is
    /// decoded: `%2F` and `/`, `%3B` and `;` stay apart, since upstreams tell them apart.
    private static func appendCanonical(_ text: Span<UInt8>, plusIsSpace: Bool, to key: inout [UInt8]) {
        var index = 0
        while index < text.count {
            let byte = text[index]
            if isUnreserved(byte) {
                key.append(byte)
                index += 1
            } else if byte == UInt8(ascii: "%"), index + 2 < text.count, let high = text[index + 1].hexValue,
                let low = text[index + 2].hexValue
            {
                let value = high << 4 | low
                if isUnreserved(value) { key.append(value) } else { appendEncoded(value, to: &key) }
                index += 3
            } else {
                if plusIsSpace { appendEncoded(byte == UInt8(ascii: "+") ? 0x20 : byte, to: &key) } else { key.append(byte) }
                index += 1
            }
        }
    }

    private static func appendEncoded(_ byte: UInt8, to key: inout [UInt8]) {
        key.append(UInt8(ascii: "%"))
        key.append(hexDigit(byte >> 4))
        key.append(hexDigit(byte & 15))
    }

    private static func hexDigit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x37 + value }

    @inline(__always)
    private static func isUnreserved(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "_")
            || byte == UInt8(ascii: "~")
    }
}

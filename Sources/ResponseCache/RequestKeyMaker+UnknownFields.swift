// The fields of a request that may select among responses without the upstream saying so (`UnknownFields`).

import CachePolicy
import HTTPCore

/// A line of a field that is on no list.
struct UnknownFieldLine {
    /// In lower case.
    let name: [UInt8]
    let value: [UInt8]
}

extension RequestKeyMaker {
    /// nil if the request has none: nearly always, and a hit asks for them.
    /// - Parameter judge: of each line, whether its field has another value in each request.
    func unknownFields(of fields: Fields, judge: (_ lines: [UnknownFieldLine]) -> [Bool]) -> UnknownFields? {
        guard comparesUnknown, hasUnknown(fields) else { return nil }
        var lines: [UnknownFieldLine] = []
        for entry in fields.entries where isUnknown(entry, in: fields) {
            let name = fields.bytes[entry.nameRange].map(\.asciiLowercased)
            let value = fields.bytes[entry.valueRange]
            let isHosts = entry.known == .forwarded && comparesForwardedHosts
            lines.append(UnknownFieldLine(name: name, value: isHosts ? ForwardedHosts.parts(of: value) : Array(value)))
        }
        // Clients order their fields as they like; lines of one name stay in their order.
        if lines.count > 1 {
            let sorted = lines.enumerated().sorted { one, other in
                one.element.name == other.element.name
                    ? one.offset < other.offset : one.element.name.lexicographicallyPrecedes(other.element.name)
            }
            lines = sorted.map(\.element)
        }
        var (kept, exact, changing): ([UInt8], [UInt8], [[UInt8]]) = ([], [], [])
        for (line, isLeftOut) in zip(lines, judge(lines)) {
            CacheKey.appendPart(line.name, to: &exact)
            CacheKey.appendPart(line.value, to: &exact)
            CacheKey.appendPart(line.name, to: &kept)
            kept.append(isLeftOut ? 0 : 1)
            if isLeftOut { changing.append(line.name) } else { CacheKey.appendPart(line.value, to: &kept) }
        }
        return UnknownFields(hash: number(of: kept), kept: kept, exact: exact, changing: changing)
    }

    /// The same fields, hashed by this maker's secret.
    func hashed(_ unknown: UnknownFields?) -> UnknownFields? {
        unknown.map { UnknownFields(hash: number(of: $0.kept), kept: $0.kept, exact: $0.exact, changing: $0.changing) }
    }

    private func hasUnknown(_ fields: Fields) -> Bool {
        for entry in fields.entries where isUnknown(entry, in: fields) { return true }
        return false
    }

    @inline(__always)
    private func isUnknown(_ entry: Fields.Entry, in fields: Fields) -> Bool {
        if let known = entry.known {
            return knownUnknown.contains(known) || (known == .forwarded && comparesForwardedHosts && namesHosts(entry, in: fields))
        }
        return kinds.kind(of: fields.bytes.span.extracting(entry.nameRange)) == .unknown
    }

    @inline(never)
    private func namesHosts(_ entry: Fields.Entry, in fields: Fields) -> Bool {
        !ForwardedHosts.parts(of: fields.bytes[entry.valueRange]).isEmpty
    }

    private func number(of parts: [UInt8]) -> UInt64 {
        var text: [UInt8] = []
        // No field has a name with a space in it.
        CacheKey.appendPart(Array("unknown fields".utf8), to: &text)
        return (hash?(text + parts) ?? []).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

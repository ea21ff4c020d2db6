// Extracts a request's unknown fields, by which the upstream may select without listing them in Vary (`UnknownFields`).

import CachePolicy
import Forwarding
import HTTPCore

/// A line of an unknown field.
struct UnknownFieldLine {
    /// In lower case.
    let name: [UInt8]
    let value: [UInt8]
}

extension RequestKeyMaker {
    /// Returns the request's unknown fields; nil if it has none, which is the common case. Called for every hit.
    /// - Parameters:
    ///   - unforwarded: names of fields that the upstream does not receive from clients.
    ///   - judge: returns for each line whether its field changes with each request.
    func unknownFields(
        of head: RequestHead, besides unforwarded: @autoclosure () -> [[UInt8]], judge: (_ lines: [UnknownFieldLine]) -> [Bool]
    ) -> UnknownFields? {
        let path = otherSpelling(of: head)
        let hasLines = comparesUnknown && hasUnknown(head.fields)
        guard path != nil || hasLines else { return nil }
        let lines = hasLines ? unknownLines(of: head.fields, besides: unforwarded()) : []
        guard path != nil || !lines.isEmpty else { return nil }
        var (kept, exact, changing): ([UInt8], [UInt8], [[UInt8]]) = ([], [], [])
        for (line, isLeftOut) in zip(path.map { [$0] + lines } ?? lines, (path == nil ? [] : [false]) + judge(lines)) {
            CacheKey.appendPart(line.name, to: &exact)
            CacheKey.appendPart(line.value, to: &exact)
            CacheKey.appendPart(line.name, to: &kept)
            kept.append(isLeftOut ? 2 : 1)
            if isLeftOut { changing.append(line.name) } else { CacheKey.appendPart(line.value, to: &kept) }
        }
        return UnknownFields(hash: number(of: kept), kept: kept, exact: exact, changing: changing, isOtherSpelling: path != nil)
    }

    /// Returns the path as a line if it is spelled in another way than in the key. The upstream receives this spelling, and may not treat
    /// it as the key's one.
    private func otherSpelling(of head: RequestHead) -> UnknownFieldLine? {
        let target = head.pathAndQuery
        guard hash != nil, target.span.first(UInt8(ascii: "%")) != nil else { return nil }
        let path = target.withoutQuery
        guard !CacheKey.isCanonical(path: path) else { return nil }
        return UnknownFieldLine(name: UnknownFields.path, value: Array(path))
    }

    private func unknownLines(of fields: Fields, besides unforwarded: [[UInt8]]) -> [UnknownFieldLine] {
        var lines: [UnknownFieldLine] = []
        for entry in fields.entries where isUnknown(entry, in: fields) {
            if UpstreamFieldRules.contains(fields.bytes.span.extracting(entry.nameRange), in: unforwarded) { continue }
            let name = fields.bytes[entry.nameRange].map(\.asciiLowercased)
            let value = fields.bytes[entry.valueRange]
            let carriesHost = entry.known == .forwarded && comparesForwardedHosts
            lines.append(UnknownFieldLine(name: name, value: carriesHost ? ForwardedHosts.parts(of: value) : Array(value)))
        }
        // The order of fields has no meaning; lines with one name keep their order.
        guard lines.count > 1 else { return lines }
        let sorted = lines.enumerated().sorted { one, other in
            one.element.name == other.element.name
                ? one.offset < other.offset : one.element.name.lexicographicallyPrecedes(other.element.name)
        }
        return sorted.map(\.element)
    }

    /// Returns these fields, hashed with this object's secret.
    func hashed(_ unknown: UnknownFields?) -> UnknownFields? {
        unknown.map {
            UnknownFields(
                hash: number(of: $0.kept), kept: $0.kept, exact: $0.exact, changing: $0.changing, isOtherSpelling: $0.isOtherSpelling)
        }
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
        // No field name contains a space.
        CacheKey.appendPart(Array("unknown fields".utf8), to: &text)
        return (hash?(text + parts) ?? []).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

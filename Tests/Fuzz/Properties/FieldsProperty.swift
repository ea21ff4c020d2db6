// Grammars of single fields: parsed values are within bounds, a prohibition counts at any position, and written values are parsed back.

import CachePolicy
import HTTPCore

enum FieldsProperty {
    private static let now = Timestamp(seconds: 1_700_000_000)
    private static let limit: Int64 = 1 << 31

    /// Each line is a value of every field. Invalid field values are skipped.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let lines = bytes.split(separator: 0x0a).filter { $0.allSatisfy(isFieldValueByte) }.map { Array($0.trimmed) }
        try checkCacheControl(lines)
        try checkVary(lines)
        try checkDates(lines)
        try checkNumbers(lines)
        try checkRanges(lines)
        try checkVariance(lines)
        let groups = CacheTags.tags(of: fields("surrogate-key", lines) + fields("cache-tag", lines) + fields("cache-groups", lines))
        try expect(Set(groups).count == groups.count, "a duplicate tag")
    }

    private static func fields(_ name: String, _ lines: [[UInt8]]) -> Fields {
        var fields = Fields()
        for line in lines { fields.append(name: Array(name.utf8).span, value: line.span) }
        return fields
    }

    private static func checkCacheControl(_ lines: [[UInt8]]) throws(Violation) {
        for name in ["cache-control", "cdn-cache-control"] {
            let control = ResponseCacheControl(fields(name, lines), targeted: [Array("cdn-cache-control".utf8)])
            for seconds in [control.maxAge, control.sharedMaxAge, control.staleIfError, control.staleWhileRevalidate] {
                try expect((0...limit).contains(seconds ?? 0), "\(seconds ?? 0) seconds are out of bounds")
            }
        }
        let forbidding = [Array("no-store, max-age=5".utf8)]
        for both in [lines + forbidding, forbidding + lines] {
            let control = ResponseCacheControl(fields("cache-control", both))
            try expect(control.noStore, "no-store in its own line is ignored")
            try expect(control.maxAge ?? 0 <= 5, "a longer max-age overrides a shorter one")
        }
        _ = RequestCacheControl(fields("cache-control", lines))
    }

    private static func checkVary(_ lines: [[UInt8]]) throws(Violation) {
        let response = fields("vary", lines)
        try expect(SelectingFields.isStar(fields("vary", lines + [[UInt8(ascii: "*")]])), "* in its own line is ignored")
        let names = SelectingFields.names(response: response, request: Fields(), settings: CachePolicySettings())
        try expect(Set(names).count == names.count, "a selecting field is named twice")
        let encoded = SelectingFields.encode(names)
        let decoded = SelectingFields.decode(encoded.span)
        try expect(decoded.map(Array.init) == names.filter { !$0.isEmpty }, "a marker's names are decoded differently")
        for name in ["accept-language", "x-other"] {
            let values = SelectingFields.values(of: [Array(name.utf8)[...]], in: fields(name, lines))
            let absent = SelectingFields.values(of: [Array(name.utf8)[...]], in: Fields())
            try expect((values == absent) == lines.isEmpty, "an absent and a present field have equal values")
        }
    }

    private static func checkDates(_ lines: [[UInt8]]) throws(Violation) {
        for line in lines {
            if let seconds = HTTPDate.parse(line[...], now: now.seconds) {
                let written = HTTPDate.format(seconds)
                try expect(HTTPDate.parse(written[...], now: now.seconds) == seconds, "a date is parsed differently after formatting")
            }
            if let milliseconds = RFC3339.parse(String(decoding: line, as: UTF8.self)) {
                let written = RFC3339.format(milliseconds: milliseconds)
                // RFC 3339 cannot represent a year before 0 or after 9999.
                if (-62_167_219_200_000..<253_402_300_800_000).contains(milliseconds) {
                    try expect(RFC3339.parse(written) == milliseconds, "\(written) is read back as another time")
                }
            }
        }
    }

    private static func checkNumbers(_ lines: [[UInt8]]) throws(Violation) {
        try expect((0...limit).contains(Freshness.ageValue(fields("age", lines))), "an Age is out of bounds")
        try expect(RetryAfter.milliseconds(fields("retry-after", lines), now: now) ?? 0 >= 0, "a Retry-After is in the past")
        var response = fields("expires", lines)
        for line in lines { response.append(.cacheControl, line) }
        let control = ResponseCacheControl(response)
        if let lifetime = Freshness.lifetime(response, control, date: now, now: now.seconds) {
            try expect(lifetime >= 0, "a lifetime is below zero")
        }
    }

    private static func checkRanges(_ lines: [[UInt8]]) throws(Violation) {
        var stored = StoredMetadata(requestTime: now, responseTime: now, date: now)
        stored.status = 200
        var request = fields("range", Array(lines.prefix(1)))
        if let condition = lines.dropFirst().first { request.append(.ifRange, condition) }
        for count in [0, 1, 1000] {
            guard case .part(let part) = RangeRequest(request, count: count, stored: stored, head: Span()) else { continue }
            try expect(!part.isEmpty && part.upperBound <= count, "a part of \(part) of \(count) bytes")
        }
    }

    private static func checkVariance(_ lines: [[UInt8]]) throws(Violation) {
        guard let variance = SearchVariance(fields("no-vary-search", lines)) else { return }
        let encoded = variance.encoded
        let again = SearchVariance(encoded: encoded.span)
        try expect(again == variance, "a variance is decoded differently")
    }
}

extension Fields {
    fileprivate static func + (left: Fields, right: Fields) -> Fields {
        var sum = left
        for index in 0..<right.count { sum.append(name: right.name(at: index).span, value: right.value(at: index).span) }
        return sum
    }
}

// Parses targeted Cache-Control fields (RFC 9213): directives for one cache, as a dictionary of RFC 9651. A field that is not a dictionary
// counts as absent. A field above `FieldListLimit` forbids storing, because its unread part may forbid it.

import HTTPCore
import RawStructuredFieldValues

enum TargetedCacheControl {
    /// nil if the field is absent, empty or not a dictionary (§2.2).
    static func read(_ fields: Fields, _ name: [UInt8]) -> ResponseCacheControl? {
        let lines = fields.all(named: name.span)
        guard !lines.isEmpty else { return nil }
        var control = ResponseCacheControl()
        control.hidesExpires = true
        guard !FieldListLimit.isExceeded(by: lines, separators: ",;") else {
            control.noStore = true
            return control
        }
        var parser = StructuredFieldValueParser(Array(lines.joined(separator: [UInt8(ascii: ",")])))
        guard let members = try? parser.parseDictionaryFieldValue(), !members.isEmpty else { return nil }
        for (key, member) in members {
            if case .item(let item) = member { take(key, item.rfc9651BareItem, &control) }
        }
        return control
    }

    /// Applies a directive. A directive with a value of the wrong type is ignored, like an unknown one (§2.1).
    private static func take(_ key: String, _ value: RFC9651BareItem, _ control: inout ResponseCacheControl) {
        switch (key, value) {
        case ("max-age", .integer(let seconds)): control.maxAge = limited(seconds)
        case ("s-maxage", .integer(let seconds)): control.sharedMaxAge = limited(seconds)
        case ("stale-while-revalidate", .integer(let seconds)): control.staleWhileRevalidate = limited(seconds)
        case ("stale-if-error", .integer(let seconds)): control.staleIfError = limited(seconds)
        case (_, .bool(true)): setFlag(key, &control)
        // Field names as in Cache-Control are not supported: the directive then applies to the whole response, which is stricter.
        case ("no-cache", .string), ("private", .string): setFlag(key, &control)
        default: break
        }
    }

    private static func setFlag(_ key: String, _ control: inout ResponseCacheControl) {
        if let directive = CacheDirective(Array(key.utf8).span) { control.setFlag(directive) }
    }

    private static func limited(_ seconds: Int64) -> Int64 { min(max(0, seconds), DeltaSeconds.limit) }
}

// JSON of stored responses, for lists and details. Secrets are redacted unless requested.

import Archives
import CachePolicy
import HTTPCore
import JSON
import ResponseCache

extension StoredEntry {
    /// The members in a list.
    func summary(now: Timestamp, of api: any AdministeredAPI, showsSecrets: Bool = false) -> JSONValue {
        let decision = Reuse.decide(metadata, RequestCacheControl(), now: now)
        let isFresh = if case .serve = decision { true } else { false }
        let age = Freshness.currentAge(of: metadata, now: now)
        return [
            "id": .string(id.description), "method": .string(key.method),
            "target": .string(showsSecrets ? String(decoding: key.typedTarget, as: UTF8.self) : key.readableTarget),
            "upstream": .string(key.api == nil ? String(decoding: key.authority, as: UTF8.self) : api.upstreamURL),
            "api": key.api.map { .string($0) },
            "status": .integer(Int(metadata.status.rawValue)),
            "content_type": head.fields.first(.contentType).map { .string(String(decoding: $0, as: UTF8.self)) },
            "bytes": .integer(contentBytes), "stored_bytes": .integer(codedBytes), "coding": .string("\(coding.name)"),
            "age": .integer(Int(clamping: age)),
            "ttl": metadata.freshnessLifetime.map { .integer(Int(clamping: $0 - age)) }, "fresh": .bool(isFresh),
            "marked_stale": .bool(metadata.flags.contains(.markedStale)), "partition": key.shortPartition.map { .string($0) },
            "vary": key.variant.map { variant in .array(variant.selecting.map { Self.selecting($0, showsSecrets) }) },
            "keyed_by_more": .bool(isKeyedByMore), "tags": .array(tags.map { .string($0) }),
        ]
    }

    private static func selecting(_ field: (name: String, value: String?), _ showsSecrets: Bool) -> JSONValue {
        let shown = field.value.map { showsSecrets || SecretNames.mayShow(selecting: field.name) ? $0 : SecretNames.redaction }
        return ["name": .string(field.name), "value": shown.map { .string($0) } ?? .null]
    }

    /// All members, including the calculation of freshness (RFC 9111 §4.2).
    /// - Parameter gone: ID of the record of a later 404, 410 or 403 for it; nil if there is none.
    func details(now: Timestamp, of api: any AdministeredAPI, gone: EntryID?, showsSecrets: Bool) -> JSONValue {
        guard case .object(let members) = summary(now: now, of: api, showsSecrets: showsSecrets) else { return .null }
        var reason: JSONValue = .null
        if case .validate(let why) = Reuse.decide(metadata, RequestCacheControl(), now: now) { reason = .string(why.rawValue) }
        let seconds = { (value: Int64?) -> JSONValue in value.map { .integer(Int(clamping: $0)) } ?? .null }
        let freshness: JSONValue = [
            "lifetime": seconds(metadata.freshnessLifetime), "current_age": seconds(Freshness.currentAge(of: metadata, now: now)),
            "age_value": seconds(metadata.ageValue),
            "apparent_age": seconds(Freshness.apparentAge(of: metadata)),
            "response_delay": seconds(Freshness.responseDelay(of: metadata)),
            "resident_time": seconds(Freshness.residentTime(of: metadata, now: now)),
            "stale_if_error": seconds(metadata.staleIfError), "stale_while_revalidate": seconds(metadata.staleWhileRevalidate),
            "asks_upstream_because": reason, "lifetime_source": .string(metadata.lifetimeSource.label),
            "is_disregarded": .bool(metadata.flags.contains(.disregarded)),
        ]
        let lines = showsSecrets ? head.fields.lines : RedactedMessage(fields: api.policy.credentials.fields).fields(head.fields)
        let fields = lines.map { JSONValue.object([.init("name", .string($0.name)), .init("value", .string($0.value))]) }
        let times: [JSONValue.Member] = [
            .init("upstream_target", .string(upstreamTarget(of: api, showsSecrets: showsSecrets))),
            .init("requested_at", .string(Self.time(metadata.requestTime))), .init("stored_at", .string(Self.time(metadata.responseTime))),
            .init("freshness", freshness), .init("fields", .array(fields)),
            .init("own_tag", .bool(metadata.flags.contains(.ownTag))), .init("weakened_tag", .bool(metadata.flags.contains(.weakenedETag))),
            .init("authorized", .bool(metadata.flags.contains(.authorized))), .init("open", .bool(metadata.flags.contains(.isOpen))),
            .init("starts_session", .bool(metadata.flags.contains(.startsSession))),
            .init("gone", gone.map { .string($0.description) } ?? .null),
        ]
        return .object(members + times)
    }

    /// The target as sent to the upstream.
    private func upstreamTarget(of api: any AdministeredAPI, showsSecrets: Bool) -> String {
        let target = showsSecrets ? key.typedTarget : Array(key.readableTarget.utf8)
        let rest = target.starts(with: api.strippedPath) ? target.dropFirst(api.strippedPath.count) : target[...]
        return (rest.first == UInt8(ascii: "/") ? "" : "/") + String(decoding: rest, as: UTF8.self)
    }

    /// The time as RFC 3339 in UTC.
    static func time(_ time: Timestamp) -> String { RFC3339.format(milliseconds: time.milliseconds) }
}

extension Fields {
    fileprivate var lines: [(name: String, value: String)] {
        (0..<count).map { (String(decoding: name(at: $0), as: UTF8.self), String(decoding: value(at: $0), as: UTF8.self)) }
    }
}

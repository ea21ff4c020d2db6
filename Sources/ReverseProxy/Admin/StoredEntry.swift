// A stored answer as the administrator sees it: its key in readable form, its freshness, its tags.

import CachePolicy
import CacheStore
import Explanation
import HTTPCore
import JSON

struct StoredEntry {
    let id: StoredItemID
    let key: StoredKey
    let metadata: StoredMetadata
    let head: ResponseHead
    let item: StoredItem

    /// nil where the item is no answer, is damaged, or cannot be reached any more: its marker was made anew, or an unsafe request made it
    /// invalid.
    init?(_ listed: ListedItem, in store: ResponseStore) {
        let bytes = Array(listed.key)
        guard var metadata = StoredMetadata(listed.item.metadata), let key = StoredKey(bytes),
            let head = StoredHead.parse(listed.item.head),
            Self.isReachable(bytes, key, metadata, store)
        else { return nil }
        if listed.item.isMarkedStale { metadata.flags.insert(.markedStale) }
        item = listed.item.confirmed(&metadata)
        (id, self.key, self.metadata, self.head) = (listed.id, key, metadata, item.note == 0 ? head : StoredHead.parse(item.head) ?? head)
    }

    private static func isReachable(_ bytes: [UInt8], _ key: StoredKey, _ metadata: StoredMetadata, _ store: ResponseStore) -> Bool {
        if let variant = key.variant {
            guard let marker = store.item(store.id(of: Array(bytes[..<key.baseCount]))),
                StoredMetadata.number(in: marker.item.metadata) == variant.generation
            else { return false }
        }
        guard !key.partition.isEmpty else { return true }
        let mark = StoreLookUp.invalidationKey(key.sharedKey(of: bytes))
        guard let item = store.item(store.id(of: mark))?.item, let time = StoredMetadata.number(in: item.metadata) else { return true }
        return metadata.requestTime.milliseconds > Int64(bitPattern: time)
    }

    var target: String { key.readableTarget }
    var tags: [String] { CacheTags.tags(of: head.fields) }

    /// What a list shows.
    func summary(now: Timestamp, showsSecrets: Bool = false) -> JSONValue {
        let decision = Reuse.decide(metadata, RequestCacheControl(), now: now)
        let isFresh = if case .serve = decision { true } else { false }
        let age = Freshness.currentAge(of: metadata, now: now)
        return [
            "id": .string(id.description), "target": .string(showsSecrets ? String(decoding: key.target, as: UTF8.self) : target),
            "upstream": .string(String(decoding: key.authority, as: UTF8.self)),
            "status": .integer(Int(metadata.status.rawValue)),
            "content_type": head.fields.first(.contentType).map { .string(String(decoding: $0, as: UTF8.self)) },
            "bytes": .integer(item.body.count), "age": .integer(Int(clamping: age)),
            "ttl": metadata.freshnessLifetime.map { .integer(Int(clamping: $0 - age)) }, "fresh": .bool(isFresh),
            "marked_stale": .bool(metadata.flags.contains(.markedStale)), "partition": key.shortPartition.map { .string($0) },
            "vary": key.variant.map { variant in .array(variant.selecting.map { Self.selecting($0, showsSecrets) }) },
            "keyed_by_more": .bool(!key.extra.isEmpty), "tags": .array(tags.map { .string($0) }),
        ]
    }

    private static func selecting(_ field: (name: String, value: String?), _ showsSecrets: Bool) -> JSONValue {
        let shown = field.value.map { showsSecrets || SecretNames.mayShow(selecting: field.name) ? $0 : SecretNames.redaction }
        return ["name": .string(field.name), "value": shown.map { .string($0) } ?? .null]
    }

    /// All that is known, with how its freshness comes about (RFC 9111 §4.2).
    func details(now: Timestamp, showsSecrets: Bool) -> JSONValue {
        guard case .object(let members) = summary(now: now, showsSecrets: showsSecrets) else { return .null }
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
            "asks_upstream_because": reason,
        ]
        var fields: [JSONValue] = []
        for index in 0..<head.fields.count {
            let name = String(decoding: head.fields.name(at: index), as: UTF8.self)
            let value = String(decoding: head.fields.value(at: index), as: UTF8.self)
            fields.append([
                "name": .string(name),
                "value": .string(!showsSecrets && SecretNames.isSecret(field: name.lowercased()) ? SecretNames.redaction : value),
            ])
        }
        let times: [JSONValue.Member] = [
            .init("requested_at", .string(Self.time(metadata.requestTime))), .init("stored_at", .string(Self.time(metadata.responseTime))),
            .init("freshness", freshness), .init("fields", .array(fields)),
        ]
        return .object(members + times)
    }

    /// RFC 3339, in UTC.
    static func time(_ time: Timestamp) -> String { RFC3339.format(milliseconds: time.milliseconds) }
}

// Combines the rules as the request flow does, with a dictionary as the store. Compared with the reference cache.

import HTTPCore

@testable import CachePolicy

struct PolicyCache {
    private struct Item {
        var metadata: [UInt8]
        var head: [UInt8]
    }

    private var items: [[UInt8]: Item] = [:]
    private var generation: UInt64 = 0
    let settings: CachePolicySettings
    let hasPartitions: Bool

    init(hasPartitions: Bool) {
        self.hasPartitions = hasPartitions
        var settings = CachePolicySettings()
        settings.keepsAny = true
        settings.strictness = .strict
        if !hasPartitions { settings.credentials.fields = [] }
        self.settings = settings
    }

    static func fields(_ lines: [Line]) -> Fields {
        var fields = Fields()
        for line in lines { fields.append(name: line.name, value: line.value) }
        return fields
    }

    private static func method(_ name: String) -> Method {
        let bytes = Array(name.utf8)
        return Method(bytes.span)
    }

    static func head(_ request: WalkRequest) -> RequestHead {
        RequestHead(
            method: method(request.method), target: Array(request.target.utf8)[...], version: .http11,
            fields: fields(request.lines))
    }

    private func partition(_ head: RequestHead) -> [UInt8] {
        hasPartitions ? head.fields.all(.authorization).flatMap { Array($0) } : []
    }

    private func key(_ head: RequestHead) -> [UInt8] {
        var key: [UInt8] = []
        let target = Array(head.target)
        CacheKey.append(to: &key, authority: Array("http://o".utf8), target: target.span, partition: partition(head))
        return key
    }

    private func find(_ head: RequestHead) -> (key: [UInt8], metadata: StoredMetadata, head: [UInt8])? {
        let key = key(head)
        guard let item = items[key] else { return nil }
        if let metadata = StoredMetadata(item.metadata.span) { return (key, metadata, item.head) }
        guard let generation = StoredMetadata.number(in: item.metadata.span) else { return nil }
        var variant = key
        let names = SelectingFields.decode(item.head.span)
        CacheKey.appendVariant(to: &variant, generation: generation, selecting: SelectingFields.values(of: names, in: head.fields))
        guard let found = items[variant], let metadata = StoredMetadata(found.metadata.span) else { return nil }
        return (variant, metadata, found.head)
    }

    func decide(_ request: WalkRequest, _ now: Int) -> ReferenceCache.Decision {
        let head = Self.head(request)
        guard let found = find(head) else { return .nothing }
        switch Reuse.decide(found.metadata, RequestCacheControl(head.fields), now: Timestamp(seconds: Int64(now))) {
        case .serve(let ttl, let age): return .serve(ttl: Int(ttl), age: Int(age))
        case .serveWhileValidating(let ttl, let age): return .serveWhileValidating(ttl: Int(ttl), age: Int(age))
        case .validate: return .validate
        }
    }

    /// Whether the stored response may be used while the upstream fails, under `strict`.
    func mayStandIn(_ request: WalkRequest, _ now: Int) -> Bool {
        let head = Self.head(request)
        guard let found = find(head) else { return false }
        let directives = RequestCacheControl(head.fields)
        let decision = Reuse.rescue(
            found.metadata, directives, strictness: settings.strictness, now: Timestamp(seconds: Int64(now)))
        if case .allowed = decision { return true }
        return false
    }

    private func answerHead(_ answer: WalkResponse) -> ResponseHead {
        ResponseHead(status: Status(rawValue: UInt16(answer.status)), fields: Self.fields(answer.lines))
    }

    func mayStore(_ request: WalkRequest, _ answer: WalkResponse) -> Bool {
        let head = Self.head(request)
        guard head.method == .get else { return false }
        let response = answerHead(answer)
        let decision = Storing.decide(
            response, ResponseCacheControl(response.fields),
            to: StorableRequest(head, RequestCacheControl(head.fields), isPartitioned: !partition(head).isEmpty),
            settings: settings)
        return decision == .allowed
    }

    mutating func store(_ request: WalkRequest, _ answer: WalkResponse) {
        let head = Self.head(request)
        let response = answerHead(answer)
        let control = ResponseCacheControl(response.fields)
        let received = ReceivedResponse(
            response, control: control, contentBytes: 0, requestTime: Timestamp(seconds: Int64(answer.requestTime)),
            responseTime: Timestamp(seconds: Int64(answer.responseTime)))
        var (bytes, metadata) = StoredHead.make(received, settings: settings)
        if Storing.isShared(head, isPartitioned: !partition(head).isEmpty, isPrivate: settings.isPrivate) {
            metadata.flags.insert(.authorized)
        }
        let names = SelectingFields.names(response: response.fields, request: head.fields, settings: settings)
        let key = key(head)
        guard !names.isEmpty else {
            items[key] = Item(metadata: metadata.encoded(), head: bytes)
            return
        }
        let encoded = SelectingFields.encode(names)
        if items[key]?.head != encoded {
            generation += 1
            items[key] = Item(metadata: StoredMetadata.varyMarker(generation: generation, metadata.recency), head: encoded)
        }
        guard let marker = items[key]?.metadata, let number = StoredMetadata.number(in: marker.span) else { return }
        var variant = key
        let values = SelectingFields.values(of: names.map { $0[...] }, in: head.fields)
        CacheKey.appendVariant(to: &variant, generation: number, selecting: values)
        items[variant] = Item(metadata: metadata.encoded(), head: bytes)
    }

    mutating func freshen(_ request: WalkRequest, _ answer: WalkResponse) {
        guard let found = find(Self.head(request)) else { return }
        let fresh = Validation.freshened(
            found.metadata, head: found.head.span, contentBytes: 0, by: answerHead(answer),
            Recency(
                order: .unknown, isImported: false, requestTime: Timestamp(seconds: Int64(answer.requestTime)),
                responseTime: Timestamp(seconds: Int64(answer.responseTime))),
            settings: settings)
        if let fresh { items[found.key] = Item(metadata: fresh.metadata.encoded(), head: fresh.bytes) }
    }

    mutating func invalidate(_ request: WalkRequest, _ status: Int) {
        let head = Self.head(request)
        let response = ResponseHead(status: Status(rawValue: UInt16(status)))
        for target in Invalidation.targets(
            method: head.method, target: head.target, response: response, origin: UpstreamOrigin(Array("http://o".utf8)))
        {
            // The store invalidates all partitions with one mark; the few partitions here are removed individually.
            for user in Walk.users {
                var key: [UInt8] = []
                CacheKey.append(to: &key, authority: Array("http://o".utf8), target: target.span, partition: Array(user.utf8))
                items[key] = nil
            }
        }
    }
}

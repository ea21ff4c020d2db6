// What a whole response is as a stored one: the same for what the upstream sends now and for what was archived.

import CachePolicy
import CacheStore
import HTTPCore

extension ProxyShard {
    /// - Parameters:
    ///   - response: without its hop-by-hop fields.
    ///   - content: decoded, where `isDecoded`.
    ///   - recency: of the response as it is to be stored.
    func newResponse(
        _ response: ResponseHead, _ content: [UInt8], isDecoded: Bool, ownTag: [UInt8]?, to request: RequestHead, isPartitioned: Bool,
        _ recency: Recency
    ) -> NewResponse {
        let policy = settings.policy
        var kept = keepingRedirect(response)
        // What was archived may have come through here.
        if let via, !(recency.isImported && FieldLists.members(of: .via, in: kept.fields).last?.elementsEqual(via) == true) {
            kept.fields.append(.via, via)
        }
        var (head, metadata) = StoredHead.make(
            kept, control: ResponseCacheControl(response.fields, targeted: policy.targetedFields), contentBytes: content.count,
            isDecoded: isDecoded, ownTag: ownTag, requestTime: recency.requestTime, responseTime: recency.responseTime, settings: policy)
        metadata.order = recency.order
        if recency.isImported { metadata.flags.insert(.imported) }
        if Storing.isShared(request, isPartitioned: isPartitioned, settings: policy) { metadata.flags.insert(.authorized) }
        return NewResponse(
            head: head, metadata: metadata, body: .bytes(content),
            names: SelectingFields.names(response: response.fields, request: request.fields, settings: policy), request: request.fields,
            sentAt: recency.requestTime)
    }

    /// Whether JSON that came without a validator gets a tag of its data.
    func wantsOwnTag(_ head: ResponseHead) -> Bool {
        settings.policy.makesEntityTags && head.status == 200 && !head.fields.contains(.etag) && !head.fields.contains(.lastModified)
            && head.fields.first(.contentType).flatMap(MediaType.init)?.isJSON == true
    }

    /// Puts a response where its own fields say that it belongs.
    /// - Parameter old: where the request was looked up.
    func store(_ new: NewResponse, _ fields: Fields, of head: RequestHead, lookedUpAt old: TargetKeys) -> StoringResult {
        guard let lookUp else { return .refused }
        guard let place = storingPlace(fields, of: head, lookedUpAt: old, new.metadata.recency) else { return .outdated }
        return lookUp.store(new, at: place)
    }
}

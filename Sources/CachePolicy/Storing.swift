// What may be stored (RFC 9111 §3). The rules of the head; what only the content tells is in `LastGood`.

import HTTPCore

/// Why an answer was not stored. The raw value is the label in metrics, logs and Cache-Status.
package enum NotStoredReason: String, Error, Sendable, CaseIterable {
    case methodNotCacheable = "method"
    case requestContent = "request_content"
    case rangeRequest = "range"
    case preconditions = "precondition"
    case status = "status"
    case noContent = "no_content"
    case partial = "partial"
    case requestNoStore = "request_no_store"
    case noStore = "no_store"
    case privateResponse = "private"
    case authorized = "authorized"
    case varyStar = "vary_star"
    case contentType = "content_type"
    case contentCoding = "content_coding"
    case tooLarge = "too_large"
    case incomplete = "incomplete"
    case invalidJSON = "invalid_json"
    case empty = "empty"
    case unprovenEnd = "unproven_end"
    case undecodable = "undecodable"
    case notGood = "not_good"
    case storeRefused = "store_refused"
}

package enum StorageDecision: Sendable, Equatable {
    case allowed
    case forbidden(NotStoredReason)
}

package enum Storing {
    /// - Parameters:
    ///   - isPartitioned: whether the key holds the request's credentials, so that nobody else is given this answer.
    package static func decide(
        request: RequestHead, directives: RequestCacheControl, response: ResponseHead, control: ResponseCacheControl, isPartitioned: Bool,
        settings: CachePolicySettings
    ) -> StorageDecision {
        guard request.method == .get else { return .forbidden(.methodNotCacheable) }
        if let reason = statusReason(response.status, control) { return .forbidden(reason) }
        guard !directives.noStore else { return .forbidden(.requestNoStore) }
        // §5.2.2.3: must-understand lets a cache that knows the status ignore no-store.
        guard !control.noStore || (control.mustUnderstand && response.status == 200) else { return .forbidden(.noStore) }
        guard !control.isPrivate || isPartitioned else { return .forbidden(.privateResponse) }
        // §3.5; the partition is stricter than the three exceptions.
        let mayShare = control.isPublic || control.mustRevalidate || control.sharedMaxAge != nil
        guard isPartitioned || mayShare || !request.fields.contains(.authorization) else { return .forbidden(.authorized) }
        guard !SelectingFields.isStar(response.fields) else { return .forbidden(.varyStar) }
        guard settings.contentTypes.contain(response.fields.first(.contentType).flatMap(MediaType.init)) else {
            return .forbidden(.contentType)
        }
        guard ContentCoding(response.fields) != nil else { return .forbidden(.contentCoding) }
        return .allowed
    }

    private static func statusReason(_ status: Status, _ control: ResponseCacheControl) -> NotStoredReason? {
        switch status {
        case 204, 205: return .noContent
        case 206: return .partial
        // About that one request, not about the resource, unless they say how long they hold.
        case 201, 202: return control.maxAge ?? control.sharedMaxAge == nil ? .status : nil
        default: return status.isSuccessful ? nil : .status
        }
    }
}

/// The content codings that can be taken off (RFC 9110 §8.4.1).
package enum ContentCoding: Sendable, Equatable {
    case identity, gzip

    /// nil where the content is coded in another way, or more than once.
    package init?(_ fields: Fields) {
        let codings = FieldLists.members(of: .contentEncoding, in: fields).filter { !$0.equalsIgnoringCase("identity") }
        if codings.isEmpty {
            self = .identity
        } else if codings.count == 1, codings[0].equalsIgnoringCase("gzip") || codings[0].equalsIgnoringCase("x-gzip") {
            self = .gzip
        } else {
            return nil
        }
    }
}

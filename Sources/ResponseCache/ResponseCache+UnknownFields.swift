// Handles requests with unknown fields, by which the upstream may select without listing them in Vary (`UnknownFields`). Their responses
// have separate keys, unless the upstream's fields say that they serve all requests.

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    /// Returns the request's unknown fields; nil if it has none, or if they are ignored.
    /// - Parameter notes: whether this is the first lookup of the request, so that its values are recorded.
    func unknownFields(of head: RequestHead, by client: @autoclosure () -> UInt64, notes: Bool = false) -> UnknownFields? {
        keyMaker.unknownFields(of: head, besides: policy(for: head).settings.freshness.unforwarded) {
            state.unknownFields.judge($0, by: client(), notes: notes)
        }
    }

    /// Chooses between the request's own response and the one for all requests. Prefers a good fresh response for all requests. Otherwise
    /// the more recent response is used, because the upstream may now select by the fields. A response for all requests that is worse than
    /// the own response is not used, because another request's fields may have caused it. For another spelling of the path, only a fresh
    /// response for all requests is used, because a response to the request says nothing about it.
    func findByUnknownFields(_ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis) throws(NotInMemory) -> LookUpResult {
        let plain = try findInPartitions(head, at: keys.forAllFields, &basis)
        let isForAll = plain.found?.metadata.flags.contains(.forAllFields) ?? false
        if isForAll, let found = plain.found, found.metadata.flags.contains(.isJSON), found.metadata.status.isSuccessful,
            Reuse.isFresh(found.metadata, now: now)
        {
            return plain
        }
        let own = try findInPartitions(head, at: keys, &basis)
        guard isForAll, keys.unknownFields?.isOtherSpelling != true else {
            basis.isStoredForPlainOnly = plain.found != nil
            return own
        }
        guard let ownResponse = own.found, let forAll = plain.found else { return plain }
        let worth = LastGood.Worth(forAll.metadata, head: forAll.head.span)
        let isWorse = worth < LastGood.Worth(ownResponse.metadata, head: ownResponse.head.span)
        return !isWorse && forAll.metadata.recency.isLater(than: ownResponse.metadata.recency) ? plain : own
    }

    // MARK: Recording

    /// Records, once per request, that it found no stored response.
    /// - Returns: new findings, and the number of a field that prevented a hit; 0 if none did.
    public func noteUnknownFields(of finding: Finding, by client: UInt64) -> (findings: [FieldFinding], field: UInt8) {
        guard strictness == .rescue else { return ([], 0) }
        var field: UInt8 = 0
        if finding.result.found == nil {
            field = state.unknownFields.noteMissed(
                finding.keys.unknownFields, under: finding.keys.forAllFields.own, isStoredForPlainOnly: finding.basis.isStoredForPlainOnly,
                by: client)
        }
        return (state.unknownFields.takeFindings(), field)
    }

    /// Returns false if a response would be stored for all values of a changing field, and too few of them got an equal one.
    func mayStore(_ response: WholeResponse, at location: StorageLocation) -> Bool {
        guard let unknown = location.unknownFields, !unknown.changing.isEmpty, !response.recency.isImported else { return true }
        var head = response.head
        head.fields = Fields()
        head.fields.append(contentsOf: response.head.fields) { !Self.timesAndCookies.holds($0) }
        let data = response.ownTag ?? response.content
        let number = ContentHash.number(of: data.span, seed: RepeatedHead.number(of: head, seed: 0) ?? 0)
        return state.unknownFields.noteResponse(number, to: unknown, under: location.key)
    }

    /// Fields that do not show whether two responses are equal. Cookies are not stored.
    private static let timesAndCookies: KnownFieldSet = [.age, .expires, .setCookie, .setCookie2]

    /// Records a stored response, and removes another variant if there are too many.
    /// - Parameters:
    ///   - unknown: nil if the response serves requests without unknown fields, or all requests.
    ///   - key: key of the stored response.
    func noteStored(_ unknown: UnknownFields?, at key: [UInt8], by client: UInt64) {
        guard let unknown else { return }
        let plain = Array(key.dropLast(UnknownFields.suffixBytes))
        guard let removed = state.unknownFields.noteStored(unknown, under: plain, by: client) else { return }
        store.remove(UnknownFields.key(plain, hash: removed).span)
    }
}

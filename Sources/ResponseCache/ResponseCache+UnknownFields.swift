// Requests with fields by which the upstream may select without saying so (`UnknownFields`): their responses lie under keys of their own, unless the
// upstream's own words say that they are for all.

import CachePolicy
import CacheStore
import HTTPCore

extension ResponseCache {
    /// nil if the request has none, and where they do not count.
    /// - Parameter notes: the request is seen for the first time: what it sends counts for which fields change.
    func unknownFields(of head: RequestHead, by client: @autoclosure () -> UInt64, notes: Bool = false) -> UnknownFields? {
        keyMaker.unknownFields(of: head.fields) { shared.unknownFields.judge($0, by: client(), notes: notes) }
    }

    /// A good response for all requests goes out as long as it is fresh. Else the more recent one counts, since the upstream may have stopped saying so;
    /// but none that is worse than the request's own: what another's fields have brought about is no reason to lose that.
    func findByUnknownFields(_ head: RequestHead, at keys: TargetKeys, _ basis: inout FindingBasis) throws(NotAtHand) -> LookUpResult {
        let plain = try findInPartitions(head, at: keys.forAllFields, &basis)
        let isForAll = plain.found?.metadata.flags.contains(.forAllFields) ?? false
        if isForAll, let found = plain.found, found.metadata.flags.contains(.isJSON), found.metadata.status.isSuccessful,
            Reuse.isFresh(found.metadata, now: now)
        {
            return plain
        }
        let own = try findInPartitions(head, at: keys, &basis)
        guard isForAll else {
            basis.isBesidePlain = plain.found != nil
            return own
        }
        guard let ownResponse = own.found, let forAll = plain.found else { return plain }
        let isWorse = LastGood.Worth(forAll.metadata, head: forAll.head) < LastGood.Worth(ownResponse.metadata, head: ownResponse.head)
        return !isWorse && forAll.metadata.recency.isLater(than: ownResponse.metadata.recency) ? plain : own
    }

    // MARK: What is learnt

    /// Notes that a request has found no copy, once.
    /// - Returns: what was found for the first time; and the number of a field that kept a copy from being used, 0 if none did.
    public func noteUnknownFields(of finding: Finding, by client: UInt64) -> (findings: [FieldFinding], field: UInt8) {
        guard strictness == .rescue else { return ([], 0) }
        var field: UInt8 = 0
        if finding.result.found == nil {
            field = shared.unknownFields.noteMissed(
                finding.keys.unknownFields, under: finding.keys.forAllFields.own, isBesidePlain: finding.basis.isBesidePlain, by: client)
        }
        return (shared.unknownFields.takeFindings(), field)
    }

    /// Takes out another variant where there would be too many.
    /// - Parameters:
    ///   - unknown: nil if the response is for requests without unknown fields, or for all.
    ///   - key: where it lies.
    func noteStored(_ unknown: UnknownFields?, at key: [UInt8], by client: UInt64) {
        guard let unknown else { return }
        let plain = Array(key.dropLast(UnknownFields.suffixBytes))
        guard let removed = shared.unknownFields.noteStored(unknown, under: plain, by: client) else { return }
        store.remove(UnknownFields.key(plain, hash: removed).span)
    }
}

// Recognizes a response that repeats the stored one: a 200 with equal fields and equal content, or a 304 with equal fields. All decisions
// about the earlier response apply again, so only the time of the confirmation is recorded.

import CachePolicy
import Decisions
import HTTPCore
import Identity
import ResponseCache

/// How much of an earlier response the upstream has repeated.
enum Repetition {
    case nothing
    case head
    /// The head and the content.
    case content
    /// All of it, and the cache has recorded the time.
    case recorded
}

extension Fetch {
    /// Request fields on which decisions about a response depend. Credentials are part of the key, and Accept and Origin decide nothing about
    /// a response whose head was accepted before.
    private static let decisive: KnownFieldSet = [.cacheControl, .ifRange, .pragma, .range]

    /// Compares the response head with the last one that confirmed the stored response.
    func compareHead(_ response: ResponseHead, sent: KnownFieldSet) {
        (headNumber, repetition) = (nil, .nothing)
        guard let found = subject.found, let keys = subject.fetchTarget?.keys, subject.head.method == .get, !isOfConnectionUser,
            context.rules.strictness == .rescue,
            response.status == 200 && isShort(response)
                || response.status == 304 && !sent.isDisjoint(with: [.ifNoneMatch, .ifModifiedSince]),
            !subject.head.fields.containsAny(of: Self.decisive), found.metadata.flags.isDisjoint(with: .countsAsStale),
            !keys.isPartitioned || found.key.starts(with: keys.own)
        else { return }
        guard var number = context.examiner.number(of: response) else { return }
        // Requests with and without credentials have separate numbers.
        if keys.isPartitioned { number ^= 1 }
        if subject.head.fields.contains(.authorization) { number ^= 2 }
        headNumber = number
        if context.examiner.hasConfirmed(number, found.contentNumber) { repetition = .head }
    }

    /// Whether the content is examined on the event loop.
    private func isShort(_ response: ResponseHead) -> Bool {
        response.contentLength.map { $0 <= context.rules.examinedAtOnceBytes } ?? false
    }

    /// The decision about the head of an earlier response that this one repeats.
    func repeatedDecision(_ response: ResponseHead) -> ResponseDecision { response.status == 304 ? .confirm : .collect(.store) }

    /// Remembers the head of a response that changed nothing in the store.
    func rememberHead(asRepetition changedNothing: Bool) {
        guard changedNothing, let headNumber, let found = subject.found else { return }
        context.examiner.rememberHead(headNumber, of: found.contentNumber)
    }

    /// Records the time of a repeated response.
    /// - Returns: false if the cache must process the response.
    func recordRepetition(_ step: FetchMachine.CacheStep) -> Bool {
        // A 304 has no content.
        let isComplete = repetition == .content || repetition == .head && step == .confirm
        guard isComplete, let fresh = repeatedMetadata, let found = subject.found,
            subject.basis?.identity?.isUnchanged ?? true,
            context.cache?.record(fresh, of: found) == true
        else { return false }
        repetition = .recorded
        return true
    }

    /// Metadata of the stored response with the times of the repeated one.
    var repeatedMetadata: StoredMetadata? {
        guard let response, var metadata = subject.found?.metadata else { return nil }
        let date = response.fields.first(.date).flatMap { HTTPDate.parse($0, now: recency.responseTime.seconds) }
        (metadata.requestTime, metadata.responseTime, metadata.order) = (recency.requestTime, recency.responseTime, recency.order)
        metadata.date = date.map { Timestamp(seconds: $0) } ?? recency.responseTime
        metadata.ageValue = 0
        return metadata
    }

    /// The stored head with the Date of the repeated response.
    func repeatedHead(_ metadata: StoredMetadata) -> [UInt8] {
        subject.found?.withHead { StoredHead.redated($0, metadata.date) ?? Array(copying: $0) } ?? []
    }
}

// The content of a response to a write decides what the write invalidates: it removes stored responses, or only makes them stale. A GraphQL
// endpoint reports a refused mutation with status 200; otherwise any client could remove them shortly before an outage. A failing gateway
// sends invalid JSON, or content that is not good. The response is held until that is known.

import CachePolicy
import ContentCodings
import HTTPCore
import JSON
import Reactor
import Upstream

extension Fetch {
    /// Whether the content of the response decides what the write invalidates. Long content is judged only if it may be that of a GraphQL
    /// mutation.
    func isJudgedByContent(_ response: ResponseHead) -> Bool {
        let (head, rules) = (subject.head, context.rules)
        guard !subject.isReading, context.cache != nil, rules.strictness == .rescue, response.status.isSuccessful, !response.hasNothing,
            MediaType(of: response.fields)?.isJSON == true, !rules.routes.stream(head.pathAndQuery),
            !rules.routes.invalidation(by: head.pathAndQuery).sparesTarget
        else { return false }
        return mayBeMutation || response.contentLength.map { $0 > 0 && $0 < rules.examinedAtOnceBytes } ?? true
    }

    /// Whether the route stores responses to the method of the write, as GraphQL routes do.
    private var mayBeMutation: Bool { context.rules.routes.reads(subject.head.method, subject.head.pathAndQuery) }

    /// Content without a length may be a slow stream. It is judged only if it ends in this batch of events.
    func limitWait(for held: HeldResponse) {
        guard let response, response.contentLength == nil, !mayBeMutation else { return }
        context.loop.atEndOfBatch { if held.isUnjudged { self.judge(held) } }
    }

    func take(_ bytes: Span<UInt8>, into held: HeldResponse) {
        held.content.append(copying: bytes)
        if held.isUnjudged, held.content.count >= context.rules.examinedAtOnceBytes { judge(held) }
    }

    func end(_ held: HeldResponse, _ end: HeldResponse.End) {
        held.end = end
        if held.isUnjudged { judge(held) }
    }

    private func judge(_ held: HeldResponse) {
        guard let response, let transfer else { return }
        held.isUnjudged = false
        let hasUnwrittenMarks = invalidate(after: response, isRefused: isRefusal(response, held))
        guard mustHold(hasUnwrittenMarks: hasUnwrittenMarks) else { return deliverHeld() }
        waitForMarks(transfer)
    }

    /// Returns whether the response refuses the write, or may come from a failing gateway.
    private func isRefusal(_ response: ResponseHead, _ held: HeldResponse) -> Bool {
        if case .failed = held.end { return false }
        return mayBeMutation && isRefusedMutation(response, held) || hasFault(response, held)
    }

    /// GraphQL responses begin with their errors. If errors fill the examined part, the rest of the content is not awaited.
    private func isRefusedMutation(_ response: ResponseHead, _ held: HeldResponse) -> Bool {
        let limit = context.rules.examinedAtOnceBytes
        guard let coding = ContentCoding(response.fields),
            let text = ContentDecoder.beginning(of: held.content, coding, atMost: limit), GraphQLResponse.isError(text.span)
        else { return false }
        return text.count >= limit || JSONTextChecker.check(text.span) == .valid
    }

    /// Returns whether the complete content would be a fault in response to a GET. Empty content is a normal response to a write.
    private func hasFault(_ response: ResponseHead, _ held: HeldResponse) -> Bool {
        guard case .ended(let isDelimited)? = held.end else { return false }
        let limit = context.rules.examinedAtOnceBytes
        // `must_have` describes responses to reads only.
        var demands = GoodResponse()
        demands.mustNotHave = good.mustNotHave
        var arrived = ContentExamination.Arrived(
            held.content, ContentCoding(response.fields), isJSON: true, nil, isDelimited: isDelimited, reading: context.rules.reading)
        arrived.extendsASCII = MediaType.extendsASCII(response.fields)
        let examination = ContentExamination(
            arrived, ContentExamination.Demands(demands, storedBytes: nil, makesTag: false, limitBytes: limit))
        let fault = examination.findings(within: limit)?.fault
        return fault != nil && fault != .emptyContent
    }
}

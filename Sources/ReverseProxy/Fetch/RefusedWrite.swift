// A GraphQL endpoint reports a refused mutation with status 200. So the beginning of the content decides what the write invalidates: it
// removes stored responses, or a refused one only makes them stale. Otherwise any client could remove them shortly before an outage. The
// response is held until that is known.

import CachePolicy
import ContentCodings
import HTTPCore
import JSON
import Upstream

extension Fetch {
    /// Whether the content of the response decides what the write invalidates. Only routes that store responses to POST need that.
    func isJudgedByContent(_ response: ResponseHead) -> Bool {
        let (head, rules) = (subject.head, context.rules)
        return !subject.isReading && context.cache != nil && rules.strictness == .rescue && response.status.isSuccessful
            && MediaType(of: response.fields)?.isJSON == true && rules.routes.reads(head.method, head.pathAndQuery)
            && !rules.routes.stream(head.pathAndQuery) && !rules.routes.invalidation(by: head.pathAndQuery).sparesTarget
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

    /// Returns whether the response refuses the write. GraphQL responses begin with their errors. If errors fill the examined part, the
    /// rest of the content is not awaited.
    private func isRefusal(_ response: ResponseHead, _ held: HeldResponse) -> Bool {
        if case .failed = held.end { return false }
        let limit = context.rules.examinedAtOnceBytes
        guard let coding = ContentCoding(response.fields),
            let text = ContentDecoder.beginning(of: held.content, coding, atMost: limit), GraphQLResponse.isError(text.span)
        else { return false }
        return text.count >= limit || JSONTextChecker.check(text.span) == .valid
    }
}

// What scripts of other origins may read and send: by the operator's word where there is one (`cors`), else by the upstream's last one.

import CachePolicy
import Downstream
import Explanation
import Forwarding
import HTTPCore
import Reactor
import ResponseCache
import Telemetry

extension ProxyShard {
    // MARK: The operator's word

    /// Responds to a preflight where the operator decides.
    /// - Returns: whether it did.
    func respondToPreflight(_ head: RequestHead, _ rules: CrossOriginRules, on stream: any ClientStream) -> Bool {
        guard let verdict = rules.verdict(of: head) else { return false }
        let response =
            verdict.refusal.map { OwnResponse(status: 403, sentence: $0, accept: head.fields.combined(.accept)) }
            ?? OwnResponse(status: 200, contentType: "text/plain; charset=utf-8", content: [])
        var lines = verdict == .allowed ? rules.leave(to: head) : []
        lines.append("Vary: Access-Control-Request-Method, Access-Control-Request-Headers\r\n")
        var record = ExchangeRecord(result: .own, method: MethodLabel(head.method), status: response.status.rawValue)
        record.source = .own
        record.bodyBytes = response.content.count
        var trace = ExchangeTrace()
        trace.number = records.why.nextNumber()
        trace.reasons.preflight = verdict
        let client = stream.client
        CrossOriginStream(stream, rules, head)
            .sendWhole(head: response.head(date: date), lines: lines, body: .bytes(response.content))
        finish(&record, &trace, head, client, loop.batchMicroseconds)
        return true
    }

    // MARK: The upstream's word

    /// Whether a stored response may be no use to the script that asks for it: it came for another origin, or for none, and nobody knows what the
    /// upstream says to this one.
    func isOfOtherOrigin(_ stored: FoundResponse, _ head: RequestHead) -> Bool {
        guard isBound(stored, head), routes.crossOrigin(head.pathAndQuery) == nil,
            let origin = head.fields.first(.origin), let fields = StoredHead.parse(stored.head)?.fields
        else { return false }
        let allowed = fields.first(.accessControlAllowOrigin)
        guard allowed?.elementsEqual(origin) != true else { return false }
        return switch shared.grants.ofTarget(head) {
        case .noLeave: false
        case .leave: allowed != nil
        case nil: true
        }
    }

    /// Whether what a script may read of it is a question of its own.
    func isBound(_ stored: FoundResponse, _ head: RequestHead) -> Bool {
        stored.metadata.flags.contains(.boundToOrigin) && head.contains(.origin) && head.method != .options
    }

    /// Remembers what a good response lets scripts of the request's origin read. A 304 need not say it again.
    func noteGrant(_ response: ResponseHead, to head: RequestHead) {
        guard let origin = head.fields.first(.origin), head.method != .options, routes.crossOrigin(head.pathAndQuery) == nil else { return }
        let word = OriginWord(response.fields, to: origin)
        if response.status.isSuccessful || (response.status == 304 && word.grant != nil) { shared.grants.note(word, to: head) }
    }

    /// Lets scripts of the request's origin read one of our own responses, where the upstream has let them read the last good one of the path.
    /// - Returns: whether it has.
    func appendGrant(ofPath head: RequestHead, to lines: inout [UInt8]) -> Bool {
        guard head.contains(.origin), head.method != .options, let grant = shared.grants.ofPath(head)?.grant else { return false }
        append(grant, to: &lines)
        return true
    }

    /// The same for a stored response that says nothing of it, where the last good one for the very same target did. What an upstream says to one
    /// origin alone is for no other, also where it forgets to tell.
    func appendGrant(ofTarget head: RequestHead, beside stored: UnsafeRawBufferPointer, to lines: inout [UInt8]) -> Bool {
        guard head.contains(.origin), head.method != .options, let fields = StoredHead.parse(stored)?.fields else { return false }
        if let allowed = fields.first(.accessControlAllowOrigin) {
            let isTold = FieldLists.contains(.vary, in: fields) { $0.equalsIgnoringCase("origin") }
            if !isTold, !allowed.elementsEqual("*".utf8) { lines.append("Vary: Origin\r\n") }
            return false
        }
        guard let grant = shared.grants.ofTarget(head)?.grant else { return false }
        append(grant, to: &lines)
        return true
    }

    private func append(_ grant: OriginGrant, to lines: inout [UInt8]) {
        countCarriedGrant()
        lines += grant.lines
        lines.append("Vary: Origin\r\n")
    }
}

// The stage `crossOrigin`: applies the operator's CORS rules (`cors`). Without rules, the upstream's last permission applies
// (`RequestEntry+CrossOrigin`).

import CachePolicy
import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor

extension RequestEntry {
    /// - Parameter stream: adds the rules' fields to the response afterwards.
    func crossOrigin(_ request: Admitted, on stream: inout any ClientStream) throws(StageEnd) {
        guard let rules = routes.crossOrigin(request.head.pathAndQuery) else { return }
        let isEmpty = request.framing == .none || request.framing == .length(0)
        if isEmpty, respondToPreflight(request.head, rules, on: stream) { throw .answered }
        stream = ChangedStream(stream, .crossOrigin(lines: rules.lines(for: request.head)))
    }

    /// Responds to a preflight request by the operator's rules.
    /// - Returns: false if the request is no preflight request.
    private func respondToPreflight(_ head: RequestHead, _ rules: CrossOriginRules, on stream: any ClientStream) -> Bool {
        guard let verdict = rules.verdict(of: head) else { return false }
        let response =
            verdict.refusal.map { OwnResponse(status: 403, sentence: $0, accept: head.fields.combined(.accept)) }
            ?? OwnResponse(status: 200, contentType: "text/plain; charset=utf-8", content: [])
        var lines = verdict == .allowed ? rules.permissionLines(to: head) : []
        lines.append("Vary: Access-Control-Request-Method, Access-Control-Request-Headers\r\n")
        var record = ExchangeRecord(.own, MethodLabel(head.method), status: response.status.rawValue)
        record.source = .own
        record.bodyBytes = response.content.count
        record.number = context.reporting.nextNumber()
        record.reasons.preflight = verdict
        let client = stream.client
        ChangedStream(stream, .crossOrigin(lines: rules.lines(for: head)))
            .sendWhole(head: response.head(date: date), lines: lines, body: .bytes(response.content))
        context.reporting.finish(&record, head, client, context.loop.batchMicroseconds)
        return true
    }
}

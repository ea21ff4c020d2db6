// CORS: responds to preflight requests by the operator's rules. Without rules, the upstream's last permission determines which responses
// scripts of other origins may read.

import CachePolicy
import Downstream
import Explanation
import Figures
import Forwarding
import HTTPCore
import Reactor
import ResponseCache

extension RequestEntry {
    /// Whether the requesting script may be unable to use the stored response, which `isBound`: it was stored for another origin or for
    /// none, and the upstream's permission for this origin is unknown.
    func isOfOtherOrigin(_ stored: FoundResponse, _ head: RequestHead) -> Bool {
        guard routes.crossOrigin(head.pathAndQuery) == nil,
            let origin = head.fields.first(.origin), let fields = stored.withHead(StoredHead.parse)?.fields
        else { return false }
        let allowed = fields.first(.accessControlAllowOrigin)
        guard allowed?.elementsEqual(origin) != true else { return false }
        return switch context.api.grants.ofTarget(head) {
        case .notGranted: false
        case .granted: allowed != nil
        case nil: true
        }
    }

    /// Whether the permission to read the response depends on the origin.
    func isBound(_ stored: FoundResponse, _ head: RequestHead) -> Bool {
        stored.metadata.flags.contains(.boundToOrigin) && head.contains(.origin) && head.method != .options
    }

    /// Responds to a preflight request by the operator's rules.
    /// - Returns: false if the request is no preflight request.
    func respondToPreflight(_ head: RequestHead, _ rules: CrossOriginRules, on stream: any ClientStream) -> Bool {
        guard let verdict = rules.verdict(of: head) else { return false }
        let response =
            verdict.refusal.map { OwnResponse(status: 403, sentence: $0, accept: head.fields.combined(.accept)) }
            ?? OwnResponse(status: 200, contentType: "text/plain; charset=utf-8", content: [])
        var lines = verdict == .allowed ? rules.permissionLines(to: head) : []
        lines.append("Vary: Access-Control-Request-Method, Access-Control-Request-Headers\r\n")
        var record = ExchangeRecord(.own, MethodLabel(head.method), status: response.status.rawValue)
        record.source = .own
        record.bodyBytes = response.content.count
        record.number = context.reporting.records.why.nextNumber()
        record.reasons.preflight = verdict
        let client = stream.client
        ChangedStream(stream, .crossOrigin(lines: rules.lines(for: head)))
            .sendWhole(head: response.head(date: date), lines: lines, body: .bytes(response.content))
        context.reporting.finish(&record, head, client, context.loop.batchMicroseconds)
        return true
    }
}

extension ShardMessages {
    /// Adds CORS fields to a response of Cistern if the last good response for the path permitted the origin.
    /// - Returns: whether a permission was added.
    func appendGrant(ofPath head: RequestHead, to lines: inout [UInt8]) -> Bool {
        guard head.contains(.origin), head.method != .options, let grant = grants.ofPath(head)?.grant else { return false }
        append(grant, to: &lines)
        return true
    }

    /// Adds CORS fields to a stored response without them, if the last good response for this target permitted the origin. A stored
    /// permission for one origin gets `Vary: Origin`, also if the upstream did not send it.
    /// - Returns: whether a permission was added.
    func appendGrant(ofTarget head: RequestHead, beside stored: Span<UInt8>, to lines: inout [UInt8]) -> Bool {
        guard head.contains(.origin), head.method != .options, let fields = StoredHead.parse(stored)?.fields else { return false }
        if let allowed = fields.first(.accessControlAllowOrigin) {
            let isTold = FieldLists.contains(.vary, in: fields) { $0.equalsIgnoringCase("origin") }
            if !isTold, !allowed.elementsEqual("*".utf8) { lines.append("Vary: Origin\r\n") }
            return false
        }
        guard let grant = grants.ofTarget(head)?.grant else { return false }
        append(grant, to: &lines)
        return true
    }

    private func append(_ grant: OriginGrant, to lines: inout [UInt8]) {
        records.figures[.corsFieldsAdded] += 1
        lines += grant.lines
        lines.append("Vary: Origin\r\n")
    }
}

// CORS without rules of the operator (`Entry/CrossOriginStage`): the upstream's last permission determines which responses scripts of other
// origins may read.

import CachePolicy
import Downstream
import Figures
import Forwarding
import HTTPCore
import ResponseCache

extension RequestEntry {
    /// Whether the requesting script may be unable to use the stored response: it was stored for another origin or for none, and the
    /// upstream's permission for this origin is unknown.
    func isOfOtherOrigin(_ stored: FoundResponse, _ head: RequestHead) -> Bool {
        guard isBound(stored, head), routes.crossOrigin(head.pathAndQuery) == nil,
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

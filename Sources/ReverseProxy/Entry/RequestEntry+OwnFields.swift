// Fields with which a client addresses the proxy itself, if the operator permits it: Cistern-Why (explanation), Cistern-Key (cache key) and
// Cistern-Mode (serving mode).

import CachePolicy
import HTTPCore

extension RequestEntry {
    /// Whether the response may need lines that other responses do not have.
    @inline(__always)
    func wantsOwnLines(_ head: RequestHead) -> Bool { head.contains(.cisternWhy) || head.contains(.cisternKey) }

    /// Whether the mode may be other than `live`, so that it must be determined.
    @inline(__always)
    func isModal(_ head: RequestHead) -> Bool { !context.coordination.modes.isLive || head.contains(.cisternMode) }

    /// The mode that the request selects, if permitted; otherwise the mode of its path or route.
    func mode(of head: RequestHead) -> ServingMode {
        guard isModal(head) else { return .live }
        if settings.ownFields.allowsMode, let value = head.fields.first(.cisternMode),
            let mode = ServingMode(rawValue: String(decoding: value.trimmed, as: UTF8.self).lowercased())
        {
            return mode
        }
        return context.coordination.modes.table.mode(of: head.pathAndQuery, route: routes.index)
    }
}

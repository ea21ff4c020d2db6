// Remembers the CORS permissions that the upstream last gave, by origin, target and path, and by host if the upstream receives it. They
// apply to responses of Cistern, and to stored responses without CORS fields. Kept in memory only. A later good response to the origin
// without a permission revokes it.

import CachePolicy
import HTTPCore
import Reactor

/// Shared by all shards. Written for responses to requests with Origin; read for responses of Cistern and for hits without CORS fields.
final class OriginGrants: Sendable {
    private struct State {
        /// Recently written or read entries move to the young half. When it is full, it replaces the old half, which is dropped.
        var young: [[UInt8]: OriginDecision] = [:]
        var old: [[UInt8]: OriginDecision] = [:]
        var youngBytes = 0
    }

    private let state = Mutex(State())
    let isKeyedByHost: Bool

    /// Maximum size of each half, with keys and lines, in bytes.
    private static let limitBytes = 2 << 20
    /// Maximum length of a remembered key, in bytes.
    private static let keyLimitBytes = 4_096
    private static let entryBytes = 128

    init(isKeyedByHost: Bool) { self.isKeyedByHost = isKeyedByHost }

    func note(_ word: OriginDecision, to head: RequestHead) {
        guard let origin = head.fields.first(.origin) else { return }
        let (target, path) = (head.pathAndQuery, head.pathAndQuery.withoutQuery)
        let keys = target.count == path.count ? [key(target, origin, head)] : [key(target, origin, head), key(path, origin, head)]
        state.withLock { state in
            for key in keys where key.count <= Self.keyLimitBytes { Self.set(word, key, &state) }
        }
    }

    /// Permission for this target.
    func ofTarget(_ head: RequestHead) -> OriginDecision? { find(head, head.pathAndQuery) }

    /// Permission for the path without its query. Responses of Cistern reveal nothing about the query.
    func ofPath(_ head: RequestHead) -> OriginDecision? { find(head, head.pathAndQuery.withoutQuery) }

    private func find(_ head: RequestHead, _ target: ArraySlice<UInt8>) -> OriginDecision? {
        guard let origin = head.fields.first(.origin) else { return nil }
        let key = key(target, origin, head)
        return state.withLock { state in
            guard let word = state.young[key] ?? state.old[key] else { return nil }
            if state.young[key] == nil { Self.set(word, key, &state) }
            return word
        }
    }

    private static func set(_ word: OriginDecision, _ key: [UInt8], _ state: inout State) {
        if let known = state.young[key] {
            if known == word { return }
            state.youngBytes -= size(key, known)
        }
        state.young[key] = word
        state.old[key] = nil
        state.youngBytes += size(key, word)
        if state.youngBytes > limitBytes { (state.old, state.young, state.youngBytes) = (state.young, [:], 0) }
    }

    private static func size(_ key: [UInt8], _ word: OriginDecision) -> Int { key.count + (word.grant?.lines.count ?? 0) + entryBytes }

    /// The origin is the last part, because it is the only one that may contain a space.
    private func key(_ target: ArraySlice<UInt8>, _ origin: ArraySlice<UInt8>, _ head: RequestHead) -> [UInt8] {
        let host = isKeyedByHost ? head.host.map(\.asciiLowercased) : []
        return Array(target) + [0x20] + host + [0x20] + Array(origin)
    }
}

// What the upstream last let scripts of which origin read, by target and by path, and by host where it is told that: for the responses that we make
// ourselves, and for stored ones that came without. In memory only. A good response to the same origin that gives no leave takes it back.

import CachePolicy
import HTTPCore
import Locking

/// Shared by all shards: noted with responses of the upstream to requests with Origin, asked where it fails, and for hits that say nothing of it themselves.
final class OriginGrants: Sendable {
    private struct State {
        /// What was noted or asked for lately moves into the young half; when that is full, the old one is dropped.
        var young: [[UInt8]: OriginWord] = [:]
        var old: [[UInt8]: OriginWord] = [:]
        var youngBytes = 0
    }

    private let state = Mutex(State())
    let isKeyedByHost: Bool

    /// Of each half, keys and lines together.
    private static let limitBytes = 2 << 20
    /// Longer ones are not remembered.
    private static let keyLimitBytes = 4_096
    private static let entryBytes = 128

    init(isKeyedByHost: Bool) { self.isKeyedByHost = isKeyedByHost }

    func note(_ word: OriginWord, to head: RequestHead) {
        guard let origin = head.fields.first(.origin) else { return }
        let (target, path) = (head.pathAndQuery, head.pathAndQuery.withoutQuery)
        let keys = target.count == path.count ? [key(target, origin, head)] : [key(target, origin, head), key(path, origin, head)]
        state.withLock { state in
            for key in keys where key.count <= Self.keyLimitBytes { Self.set(word, key, &state) }
        }
    }

    /// For this very target.
    func ofTarget(_ head: RequestHead) -> OriginWord? { find(head, head.pathAndQuery) }

    /// For the path, whatever its arguments: what we say ourselves tells nothing of them.
    func ofPath(_ head: RequestHead) -> OriginWord? { find(head, head.pathAndQuery.withoutQuery) }

    private func find(_ head: RequestHead, _ target: ArraySlice<UInt8>) -> OriginWord? {
        guard let origin = head.fields.first(.origin) else { return nil }
        let key = key(target, origin, head)
        return state.withLock { state in
            guard let word = state.young[key] ?? state.old[key] else { return nil }
            if state.young[key] == nil { Self.set(word, key, &state) }
            return word
        }
    }

    private static func set(_ word: OriginWord, _ key: [UInt8], _ state: inout State) {
        if let known = state.young[key] {
            if known == word { return }
            state.youngBytes -= size(key, known)
        }
        state.young[key] = word
        state.old[key] = nil
        state.youngBytes += size(key, word)
        if state.youngBytes > limitBytes { (state.old, state.young, state.youngBytes) = (state.young, [:], 0) }
    }

    private static func size(_ key: [UInt8], _ word: OriginWord) -> Int { key.count + (word.grant?.lines.count ?? 0) + entryBytes }

    /// None of them has a space in it, but for an origin: so that comes last.
    private func key(_ target: ArraySlice<UInt8>, _ origin: ArraySlice<UInt8>, _ head: RequestHead) -> [UInt8] {
        let host = isKeyedByHost ? head.host.map(\.asciiLowercased) : []
        return Array(target) + [0x20] + host + [0x20] + Array(origin)
    }
}

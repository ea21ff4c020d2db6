// Remembers beside the store which settings let clients share responses, so that a start with stricter ones warns, as a reload does.

import Glibc
import Reactor
import ResponseCache
import ReverseProxy

struct RememberedSharing {
    private static let limitBytes = 4 << 20

    private let path: String

    init(beside store: StoreLocation) { path = store.path(of: "sharing-settings") }

    /// Remembers the settings.
    /// - Returns: warnings about settings that separate more clients than the remembered ones, and about changed upstreams.
    func note(_ apis: [ProxySettings]) -> [String] {
        let now = Set(apis.flatMap { api in api.sharingFacts.map { "\(api.apiName)\t\($0)" } })
        let before = FileContent.read(path, limit: Self.limitBytes, .regular).map { content in
            Set(content.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) })
        }
        // The facts about other APIs stay: their responses may still be stored.
        let all = now.union((before ?? []).filter { fact in !apis.contains { fact.hasPrefix($0.apiName + "\t") } })
        guard all != before else { return [] }
        // During a take-over, both processes may write.
        _ = WholeWrite.replace(path, with: Array(all.sorted().joined(separator: "\n").utf8), draft: "\(path).\(getpid())")
        guard let before else { return [] }
        return apis.flatMap { api in
            let prefix = api.apiName + "\t"
            let known = before.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
            // An API that is new here has no stored responses.
            return known.isEmpty ? [] : api.warnings(ofSharingSince: Set(known))
        }
    }
}

extension ProxyServer {
    /// Remembers the settings for the next start.
    /// - Returns: warnings if they separate more clients than the remembered ones.
    @discardableResult
    func rememberSharing() -> [String] {
        let settings = serving.apis.map(\.state.settings)
        return settings.lazy.compactMap(\.store).first.map { RememberedSharing(beside: $0).note(settings) } ?? []
    }
}

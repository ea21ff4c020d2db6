// Remembers beside the store which settings let clients share responses, so that a start with stricter ones warns, as a reload does.

import CSystem
import Glibc
import HTTPCore
import Reactor
import ResponseCache
import ReverseProxy

struct RememberedSharing {
    /// Maximum length of the file in bytes.
    private static let limitBytes = 4 << 20

    private let path: String

    init(beside store: StoreLocation) { path = store.path(of: "sharing-settings") }

    /// Remembers the settings.
    /// - Returns: for each API, one sentence that names the settings that separate more clients than the remembered ones.
    func note(_ apis: [ProxySettings]) -> [String] {
        let now = Set(apis.flatMap { api in api.sharingFacts.map { "\(api.apiName)\t\($0)" } })
        let before = FileContent.read(path, limit: Self.limitBytes, .regular).map { content in
            Set(content.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) })
        }
        // The facts about other APIs stay: their responses may still be stored.
        let others = (before ?? []).filter { fact in !apis.contains { fact.hasPrefix($0.apiName + "\t") } }
        guard now.union(others) != before else { return [] }
        write(now.union(others).sorted().joined(separator: "\n"))
        guard let before else { return [] }
        return apis.compactMap { api in
            let known = before.compactMap { fact -> String? in
                let parts = fact.split(separator: "\t", maxSplits: 1, omittingEmptySubsequences: false)
                return parts.count == 2 && parts[0] == api.apiName ? String(parts[1]) : nil
            }
            // An API that is new here has no stored responses.
            return known.isEmpty ? nil : api.warning(ofSharingSince: Set(known))
        }
    }

    private func write(_ text: String) {
        let draft = "\(path).\(getpid())"
        let file = Descriptor(open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600))
        let bytes = Array(text.utf8)
        guard file.isOpen, WholeWrite.write(bytes, to: file.number) == bytes.count, fsync(file.number) == 0 else { return }
        rename(draft, path)
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

// Whether the upstream of an API sends weak entity tags itself. A weak tag of a client is then not necessarily one that Cistern weakened.

import HTTPCore
import Synchronization

/// Shared by all shards. Kept until the API gets another upstream: one that has sent weak tags may compare them as text.
final class WeakTags: Sendable {
    private let seen = Atomic(false)

    var areSent: Bool { seen.load(ordering: .relaxed) }

    func note(_ response: Fields) {
        guard !areSent, let tag = response.first(.etag), tag.starts(with: "W/".utf8) else { return }
        seen.store(true, ordering: .relaxed)
    }
}

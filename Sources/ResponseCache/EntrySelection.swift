// Selects stored responses for an administrator.

import CachePolicy
import HTTPCore

/// Responses that meet all of the conditions; without any, all responses.
public struct EntrySelection: Sendable {
    private let prefix: Prefix?
    let tag: String?
    private let target: Target?
    /// true for selected paths.
    var paths: PathTable<Bool>?
    /// Beginnings of the selected partitions.
    var partitions: [[UInt8]]?
    /// Selects responses that were received or confirmed earlier.
    var before: Timestamp?

    public init(prefix: Prefix? = nil, tag: String? = nil, target: Target? = nil) {
        self.prefix = prefix
        self.tag = tag
        self.target = target
    }

    /// Selects the paths for which the table is true.
    public init(paths: PathTable<Bool>) {
        self.init()
        self.paths = paths
    }

    /// Selects only these partitions, of those selected so far.
    mutating func limit(to others: [[UInt8]]) {
        partitions = partitions.map { selected in others.filter { other in selected.contains { other.starts(with: $0) } } } ?? others
    }

    /// Prefix of a target, in canonical form or in any other spelling of its path.
    public struct Prefix: Sendable {
        private let text: [UInt8]
        private let canonical: [UInt8]

        public init(_ text: String) {
            self.text = Array(RequestTarget.escaped(Array(text.utf8)[...], isTyped: true))
            let path = self.text[...].withoutQuery
            var key: [UInt8] = []
            CacheKey.append(to: &key, authority: [], target: path.span, rules: nil)
            canonical = (StoredKey(key)?.target ?? []) + self.text[path.endIndex...]
        }

        fileprivate func begins(_ target: [UInt8]) -> Bool { target.starts(with: canonical) || target.starts(with: text) }
    }

    public struct Target: Sendable {
        private let text: [UInt8]
        private let rules: ArgumentRules
        /// Path and arguments in canonical form.
        fileprivate let canonical: [UInt8]

        /// - Parameter text: in any spelling.
        public init(_ text: String, _ arguments: ArgumentTable) {
            self.text = Array(RequestTarget.escaped(Array(text.utf8)[...], isTyped: true))
            rules = arguments.rules(for: self.text[...])
            canonical = Self.canonical(self.text, rules)
        }

        /// Returns the canonical form under a No-Vary-Search of the upstream.
        fileprivate func canonical(_ variance: SearchVariance) -> [UInt8] { Self.canonical(text, rules.with(variance)) }

        private static func canonical(_ text: [UInt8], _ rules: ArgumentRules) -> [UInt8] {
            var key: [UInt8] = []
            CacheKey.append(to: &key, authority: [], target: text.span, rules: rules)
            return StoredKey(key)?.target ?? []
        }
    }

    /// Returns whether a response under this key may be selected, without reading the response.
    /// - Parameter path: the path of a key that is compared with many selections.
    func mayContain(_ key: StoredKey, _ path: ReadPath? = nil) -> Bool {
        guard isWithin(key, path) else { return false }
        guard let target else { return true }
        return key.target == target.canonical || Self.mayLeaveOut(key) && key.target[...].withoutQuery == target.canonical[...].withoutQuery
    }

    /// Whether a target is selected. Each API decides which arguments its keys contain.
    var hasTarget: Bool { target != nil }

    /// Returns whether a response of an unserved API may be selected. Only the key is known.
    func mayContainElsewhere(_ key: StoredKey) -> Bool {
        isWithin(key) && target.map { $0.canonical[...].withoutQuery == key.target[...].withoutQuery } ?? true
    }

    /// Returns whether all responses under this key are selected, without reading them.
    func contains(_ key: StoredKey) -> Bool {
        !readsEntries && isWithin(key) && target.map { $0.canonical == key.target } ?? true
    }

    /// Whether the key alone does not decide.
    var readsEntries: Bool { tag != nil || before != nil }

    func contains(_ entry: StoredEntry) -> Bool {
        isWithin(entry.key) && tag.map { entry.tags.contains($0) } ?? true && before.map { entry.metadata.responseTime < $0 } ?? true
            && target.map { leads($0, to: entry) } ?? true
    }

    /// A response stored under fewer arguments because of No-Vary-Search is also found by targets with more arguments.
    private func leads(_ target: Target, to entry: StoredEntry) -> Bool {
        if target.canonical == entry.key.target { return true }
        guard Self.mayLeaveOut(entry.key) else { return false }
        return SearchVariance(entry.head.fields).map { target.canonical($0) == entry.key.target } ?? false
    }

    /// The upstream's No-Vary-Search is part of such keys.
    private static func mayLeaveOut(_ key: StoredKey) -> Bool { !key.extra.isEmpty }

    /// Returns whether prefix, paths and partitions select the key.
    private func isWithin(_ key: StoredKey, _ path: ReadPath? = nil) -> Bool {
        prefix?.begins(key.target) ?? true && partitions?.contains { key.partition.starts(with: $0) } ?? true
            && paths?.holdsForAny(path ?? key.path) { $0 } ?? true
    }
}

extension StoredKey {
    var path: ReadPath { ReadPath(typedTarget[...]) }
}

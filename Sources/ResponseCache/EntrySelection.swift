// Which stored responses an administrator means.

import CachePolicy
import HTTPCore

/// Without a target, a prefix and a tag: all.
public struct EntrySelection: Sendable {
    private let prefix: Prefix?
    let tag: String?
    private let target: Target?

    public init(prefix: Prefix? = nil, tag: String? = nil, target: Target? = nil) {
        self.prefix = prefix
        self.tag = tag
        self.target = target
    }

    /// The beginning of a target, as it is spelled in keys or in any other spelling of its path.
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
        /// Path and arguments in their canonical spelling.
        fileprivate let canonical: [UInt8]

        /// - Parameter text: in any spelling.
        public init(_ text: String, _ arguments: ArgumentTable) {
            self.text = Array(RequestTarget.escaped(Array(text.utf8)[...], isTyped: true))
            rules = arguments.rules(for: self.text[...])
            canonical = Self.canonical(self.text, rules)
        }

        /// As it is spelled where the upstream has said that some arguments make no difference.
        fileprivate func canonical(_ variance: SearchVariance) -> [UInt8] { Self.canonical(text, rules.with(variance)) }

        private static func canonical(_ text: [UInt8], _ rules: ArgumentRules) -> [UInt8] {
            var key: [UInt8] = []
            CacheKey.append(to: &key, authority: [], target: text.span, rules: rules)
            return StoredKey(key)?.target ?? []
        }
    }

    /// Without the stored response: whether one under this key may be meant.
    func mayContain(_ key: StoredKey) -> Bool {
        guard let target else { return hasPrefix(key) }
        guard hasPrefix(key) else { return false }
        return key.target == target.canonical || Self.mayLeaveOut(key) && key.target[...].withoutQuery == target.canonical[...].withoutQuery
    }

    /// Which of its arguments make a difference, each API says.
    var hasTarget: Bool { target != nil }

    /// The same for an API of which no more is known than this key.
    func mayContainElsewhere(_ key: StoredKey) -> Bool {
        hasPrefix(key) && target.map { $0.canonical[...].withoutQuery == key.target[...].withoutQuery } ?? true
    }

    /// The same: whether all under this key are meant.
    func contains(_ key: StoredKey) -> Bool {
        tag == nil && hasPrefix(key) && target.map { $0.canonical == key.target } ?? true
    }

    func contains(_ entry: StoredEntry) -> Bool {
        hasPrefix(entry.key) && tag.map { entry.tags.contains($0) } ?? true && target.map { leads($0, to: entry) } ?? true
    }

    /// What the upstream's No-Vary-Search stored under fewer arguments is found by more.
    private func leads(_ target: Target, to entry: StoredEntry) -> Bool {
        if target.canonical == entry.key.target { return true }
        guard Self.mayLeaveOut(entry.key) else { return false }
        return SearchVariance(entry.head.fields).map { target.canonical($0) == entry.key.target } ?? false
    }

    /// What the upstream has said is part of such keys.
    private static func mayLeaveOut(_ key: StoredKey) -> Bool { !key.extra.isEmpty }

    private func hasPrefix(_ key: StoredKey) -> Bool { prefix?.begins(key.target) ?? true }
}

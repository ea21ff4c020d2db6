// The operator's settings for content codings, globally or by path.

import HTTPCore

/// How stored content is coded, and whether clients that accept the coding receive it coded.
public enum Compression: String, Sendable, CaseIterable {
    /// Stored without a coding.
    case off
    case gzip
    case zstd
    case br
    /// Stored with gzip, and sent compressed even if it may contain secrets. An attacker who can inject text next to a secret and observe
    /// the length may guess the secret (BREACH).
    case always

    /// The coding applied to content that arrived without one.
    public var coding: ContentCoding {
        switch self {
        case .off: .identity
        case .gzip, .always: .gzip
        case .zstd: .zstd
        case .br: .brotli
        }
    }

    /// Returns whether content of this length is coded at all. Content shorter than `least` bytes does not benefit.
    public func covers(_ bytes: Int, from least: Int) -> Bool { self != .off && bytes >= least }

    /// Returns whether content may be sent in a coding that the upstream did not apply.
    public func mayCode(isOpen: Bool) -> Bool { self == .always || self != .off && isOpen }
}

extension Compression: PathRules {
    /// `always` is permissive: it sends secrets compressed.
    public func stricter(_ other: Compression) -> Compression { self == .always && other != .always ? .gzip : self }
}

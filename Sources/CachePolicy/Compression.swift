// What the operator wants of content codings, for all paths or for some.

import HTTPCore

/// How stored content is kept, and whether clients that take it get it so.
public enum Compression: String, Sendable, CaseIterable {
    /// As it is without a coding.
    case off
    case gzip
    case zstd
    case br
    /// With gzip, and sent so also where secrets may be in it: whoever can have something of his own put beside them, and sees how long it becomes, may
    /// guess them (BREACH).
    case always

    /// What is put on content that came without one.
    public var coding: ContentCoding {
        switch self {
        case .off: .identity
        case .gzip, .always: .gzip
        case .zstd: .zstd
        case .br: .brotli
        }
    }

    /// Whether content of so many bytes gets a coding at all; shorter content than `least` wins nothing by one.
    public func covers(_ bytes: Int, from least: Int) -> Bool { self != .off && bytes >= least }

    /// Whether it may be sent with a coding that the upstream did not put on it.
    public func mayCode(isOpen: Bool) -> Bool { self == .always || self != .off && isOpen }
}

extension Compression: PathRules {
    /// `always` opens: it sends secrets in coded form.
    public func stricter(_ other: Compression) -> Compression { self == .always && other != .always ? .gzip : self }
}

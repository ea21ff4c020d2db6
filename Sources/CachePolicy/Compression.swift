// What the operator wants of content codings, for all paths or for some.

import HTTPCore

/// How stored content is kept, and whether clients that take it get it so.
package enum Compression: String, Sendable, CaseIterable {
    /// As it is without a coding.
    case off
    case gzip
    case zstd
    case br
    /// With gzip, and sent so also where secrets may be in it: whoever can have something of his own put beside them, and sees how long it becomes, may
    /// guess them (BREACH).
    case always

    /// What is put on content that came without one.
    package var coding: ContentCoding {
        switch self {
        case .off: .identity
        case .gzip, .always: .gzip
        case .zstd: .zstd
        case .br: .brotli
        }
    }

    /// Whether it may be sent with a coding that the upstream did not put on it.
    package func mayCode(isOpen: Bool) -> Bool { self == .always || self != .off && isOpen }
}

/// What holds for a path, where some have rules of their own.
@usableFromInline package struct PathTable<Rules: Sendable & Equatable>: Sendable {
    @usableFromInline let exceptions: [(pattern: RoutePattern, rules: Rules)]
    @usableFromInline let rest: Rules

    /// - Parameters:
    ///   - exceptions: the first that fits counts.
    ///   - rest: for all other paths.
    package init(_ exceptions: [(pattern: RoutePattern, rules: Rules)] = [], rest: Rules) {
        // Where all say the same, nobody has to look which it is.
        self.exceptions = exceptions.allSatisfy { $0.rules == rest } ? [] : exceptions
        self.rest = rest
    }

    /// Inlined, since a table of types unknown here would ask for them at each use: two thousand steps for every response.
    @inlinable package func rules(for target: ArraySlice<UInt8>) -> Rules {
        if exceptions.isEmpty { return rest }
        return exceptions.first { $0.pattern.matches(target) }?.rules ?? rest
    }
}

// The conditions of a purge, which a response must all meet. As text, they travel in the fleet's log.

import CachePolicy
import HTTPCore

public struct PurgeCriteria: Sendable, Equatable {
    /// A user's responses.
    public struct User: Sendable, Equatable {
        /// The partitions under which nodes share the user's responses. They reveal nothing about the credential.
        var shared: [[UInt8]]
        /// The credential, sealed with the fleet's secret.
        var sealed: [UInt8]
    }

    public var target: String?
    public var prefix: String?
    public var tag: String?
    /// Path pattern of a route.
    public var matching: String?
    /// Path patterns that take precedence over `matching`, and select nothing.
    public var except: [String] = []
    /// First digits of the partition in this node's keys, in hexadecimal.
    public var partition: String?
    public var user: User?
    /// Only responses that were received or confirmed earlier.
    public var before: Timestamp?
    /// Whether the bytes are also removed from the disk.
    public var erases = false

    public init() {}

    /// nil if a criterion without effect on older versions is needed, so that the text form is required.
    var simple: (kind: FleetSelection.Kind, value: String)? {
        guard matching == nil, except.isEmpty, partition == nil, user == nil, before == nil, !erases else { return nil }
        switch (target, prefix, tag) {
        case (let target?, nil, nil): return (.target, target)
        case (nil, let prefix?, nil): return (.prefix, prefix)
        case (nil, nil, let tag?): return (.tag, tag)
        case (nil, nil, nil): return (.everything, "")
        default: return nil
        }
    }

    // MARK: Text

    private enum Name: String {
        case target, prefix, tag, matching, except, partition, shared, sealed, before, erases
    }

    /// Arguments as in a query.
    var text: String {
        var parts: [(Name, String)] = []
        for (name, value) in [(Name.target, target), (.prefix, prefix), (.tag, tag), (.matching, matching), (.partition, partition)] {
            if let value { parts.append((name, value)) }
        }
        parts += except.map { (.except, $0) }
        if let user {
            parts += user.shared.map { (.shared, StoredKey.hexadecimal($0)) }
            parts.append((.sealed, StoredKey.hexadecimal(user.sealed)))
        }
        if let before { parts.append((.before, String(before.milliseconds))) }
        if erases { parts.append((.erases, "1")) }
        return parts.map { "\($0.0.rawValue)=\(PercentCoding.encode($0.1))" }.joined(separator: "&")
    }

    /// - Returns: nil if the text cannot be parsed, or has criteria of a newer version.
    init?(text: String) {
        var (shared, sealed): ([[UInt8]], [UInt8]?) = ([], nil)
        for part in text.utf8.split(separator: UInt8(ascii: "&")) {
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")), let name = Name(rawValue: String(part[..<equals]) ?? ""),
                let value = PercentCoding.decode(part[equals...].dropFirst(), plusIsSpace: false)
            else { return nil }
            switch name {
            case .target: target = value
            case .prefix: prefix = value
            case .tag: tag = value
            case .matching: matching = value
            case .except: except.append(value)
            case .partition: partition = value
            case .shared:
                guard let bytes = [UInt8](hexadecimal: value) else { return nil }
                shared.append(bytes)
            case .sealed:
                guard let bytes = [UInt8](hexadecimal: value) else { return nil }
                sealed = bytes
            case .before:
                guard let milliseconds = Int64(value) else { return nil }
                before = Timestamp(milliseconds: milliseconds)
            case .erases: erases = value == "1"
            }
        }
        guard shared.isEmpty || sealed != nil else { return nil }
        user = sealed.map { User(shared: shared, sealed: $0) }
    }

    /// The selected paths; nil for all.
    var paths: PathTable<Bool>? {
        matching.map { matching in
            let exceptions: [(pattern: RoutePattern, rules: Bool)] = except.map { (RoutePattern($0), false) }
            return PathTable(exceptions + [(RoutePattern(matching), true)], rest: false)
        }
    }

    /// Returns why a purge of a user may be incomplete in an API of this node; nil if it is complete.
    public func doubt(in cache: ResponseCache) -> String? {
        user.flatMap { cache.opened($0) }.flatMap { cache.partitions(of: $0).doubt }
    }

    /// Returns the selected entries of an API. A user is selected by `credential`, or by the sealed one.
    public func selection(in cache: ResponseCache, credential: UserCredential? = nil) -> EntrySelection {
        var selection = EntrySelection(
            prefix: prefix.map { .init($0) }, tag: tag, target: target.map { .init($0, cache.state.settings.arguments) })
        (selection.paths, selection.before) = (paths, before)
        if let partition { selection.partitions = [UInt8](hexadecimal: partition).map { [$0] } ?? [] }
        if let credential = credential ?? user.flatMap({ cache.opened($0) }) {
            selection.limit(to: cache.partitions(of: credential).partitions)
        } else if user != nil {
            selection.partitions = []
        }
        return selection
    }
}

extension ResponseCache {
    /// Returns the user in the form that other nodes receive; nil if nothing is shared.
    /// - Parameter caches: of the APIs that the purge concerns.
    public static func sealed(_ credential: UserCredential, for caches: [ResponseCache]) -> PurgeCriteria.User? {
        guard let sealing = caches.first?.settings.fleet?.sealing else { return nil }
        let shared = caches.flatMap { $0.fleetPartitions(of: credential) }
        return PurgeCriteria.User(shared: shared, sealed: sealing.seal(credential.text))
    }

    /// nil if the credential was sealed by another fleet.
    fileprivate func opened(_ user: PurgeCriteria.User) -> UserCredential? {
        settings.fleet?.sealing?.open(user.sealed).flatMap { try? UserCredential($0) }
    }
}

/// Seals data with the secrets of a fleet.
public struct FleetSealing: Sendable {
    public let seal: @Sendable ([UInt8]) -> [UInt8]
    /// Returns nil if no secret opens the data.
    public let open: @Sendable ([UInt8]) -> [UInt8]?

    public init(seal: @escaping @Sendable ([UInt8]) -> [UInt8], open: @escaping @Sendable ([UInt8]) -> [UInt8]?) {
        (self.seal, self.open) = (seal, open)
    }
}

extension [UInt8] {
    /// nil if the text is not an even number of hexadecimal digits.
    init?(hexadecimal text: String) {
        let digits = text.utf8.map(\.hexValue)
        guard digits.count % 2 == 0 else { return nil }
        self = []
        reserveCapacity(digits.count / 2)
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            append(high << 4 | low)
        }
    }
}

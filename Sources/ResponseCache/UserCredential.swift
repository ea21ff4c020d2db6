// The credential that selects a user's responses for a purge: a token, a cookie, or the fields that the user's app sends. It is held in memory for
// the purge only. Other nodes receive it sealed.

import CachePolicy
import HTTPCore
import Identity

public struct UserCredential: Sendable, Equatable {
    public enum Problem: String, Error, Sendable, CaseIterable {
        case empty = "the credential is empty"
        case tooLong = "the credential is longer than 16 KiB"
        case tooManyFields = "the credential has more than four fields"
        case severalHosts = "the credential has more than one Host line: repeat the purge for each host"
        case malformed = "the credential has a control character, or a line that is not of the form NAME: VALUE"
    }

    /// Maximum length in bytes: that of the longest request head.
    public static let limitBytes = 16 << 10
    /// Maximum number of fields. Requests may have any subset of them.
    public static let fieldLimit = 4

    /// The text without surrounding white space.
    public let text: [UInt8]
    private let lines: [(name: String, value: String)]

    public static func == (one: UserCredential, other: UserCredential) -> Bool { one.text == other.text }

    /// - Parameter text: `NAME: VALUE` lines, or one line with a token, a cookie (`NAME=VALUE`) or the value of Authorization.
    public init(_ text: [UInt8]) throws(Problem) {
        let blanks: Set<UInt8> = [0x20, 0x09, 0x0d, 0x0a]
        let start = text.drop { blanks.contains($0) }
        guard let last = start.lastIndex(where: { !blanks.contains($0) }) else { throw .empty }
        self.text = Array(start[...last])
        guard self.text.count <= Self.limitBytes else { throw .tooLong }
        let all = self.text.split { $0 == 0x0a || $0 == 0x0d }.map { Array($0.trimmed) }.filter { !$0.isEmpty }
        guard all.allSatisfy({ $0.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 } }) else { throw .malformed }
        guard all.count <= Self.fieldLimit else { throw .tooManyFields }
        let fields = all.map(Self.field)
        guard all.count == 1 || fields.allSatisfy({ $0 != nil }) else { throw .malformed }
        lines = fields.compactMap(\.self)
        guard lines.count(where: Self.isHost) < 2 else { throw .severalHosts }
    }

    /// nil if the line does not begin with a field name and a colon.
    private static func field(_ line: [UInt8]) -> (name: String, value: String)? {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > 0 else { return nil }
        let (name, value) = (line[..<colon], line[(colon + 1)...].trimmed)
        guard !value.isEmpty, name.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") })
        else { return nil }
        return (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
    }

    /// Returns the fields of all requests that may present the credential. A Host field is part of all of them.
    /// - Parameter names: fields that may carry a credential of unknown kind.
    func requests(_ names: [String]) -> [Fields] {
        guard lines.isEmpty else {
            let (hosts, others) = (lines.filter(Self.isHost), lines.filter { !Self.isHost($0) })
            return (1..<(1 << others.count)).map { subset in
                Self.fields(hosts + others.indices.filter { subset & 1 << $0 != 0 }.map { others[$0] })
            }
        }
        let word = String(decoding: text, as: UTF8.self)
        // The value of Authorization has a scheme and a space.
        guard !word.contains(" ") || isCookie else { return [Self.fields([("authorization", word)])] }
        let others = names.filter { !$0.contains("*") && $0 != "cookie" && $0 != "authorization" }
        let tokens = word.contains(" ") ? [] : [("authorization", "Bearer \(word)")] + others.map { ($0, word) }
        return (tokens + (isCookie ? [("cookie", word)] : [])).map { Self.fields([$0]) }
    }

    /// Whether a request with these fields has the whole credential. A credential without field names is always in one field.
    func isWhole(_ fields: Fields) -> Bool { lines.isEmpty || fields.count == lines.count }

    private static func isHost(_ line: (name: String, value: String)) -> Bool { line.name.lowercased() == "host" }

    /// Whether the line can be a cookie. The padding of Base64 does not count as a cookie's equals sign.
    private var isCookie: Bool {
        guard let equals = text.firstIndex(of: UInt8(ascii: "=")), equals > 0 else { return false }
        return !text[..<equals].contains(0x20) && text[equals...].contains { $0 != UInt8(ascii: "=") }
    }

    private static func fields(_ lines: [(String, String)]) -> Fields {
        var fields = Fields()
        for (name, value) in lines { fields.append(name: name.lowercased(), value: value) }
        return fields
    }
}

/// The partitions of a user.
public struct UserPartitions: Sendable {
    public fileprivate(set) var partitions: [[UInt8]] = []
    /// Why the credential could not be examined, as a sentence.
    fileprivate var obstacle: String?
    /// Look-ups that have a result for the credential, and those that have none for a request with all of it.
    fileprivate var lookedUp: Set<Int> = []
    fileprivate var unknown: Set<Int> = []

    /// Why the user may have further partitions that are unknown now, as a sentence; nil if all are known.
    public var doubt: String? {
        if let obstacle { return obstacle }
        guard !unknown.isSubset(of: lookedUp) else { return nil }
        return
            "credentials.identity.lookup has no result for this credential now, so responses stored for its user are not found: "
            + "send a request with the credential, then repeat the purge"
    }

    fileprivate mutating func add(_ partition: [UInt8]?) {
        if let partition, !partition.isEmpty, !partitions.contains(partition) { partitions.append(partition) }
    }

    fileprivate mutating func note(lookUp index: Int, isKnown: Bool) {
        if isKnown { lookedUp.insert(index) } else { unknown.insert(index) }
    }
}

extension ResponseCache {
    /// Returns the partitions of requests with this credential. Empty if no rule recognizes it.
    public func partitions(of user: UserCredential) -> UserPartitions {
        var found = UserPartitions()
        for fields in user.requests(settings.policy.credentials.fields) { keyMaker.add(partitionsOf: fields, of: user, to: &found) }
        return found
    }

    /// Returns the partitions under which other nodes share the user's responses.
    func fleetPartitions(of user: UserCredential) -> [[UInt8]] {
        var found = UserPartitions()
        for maker in fleetKeyMakers {
            for fields in user.requests(settings.policy.credentials.fields) { maker.add(partitionsOf: fields, of: user, to: &found) }
        }
        return found.partitions
    }
}

extension RequestKeyMaker {
    /// Adds the partition that each credential rule gives to a request with these fields.
    fileprivate func add(partitionsOf fields: Fields, of user: UserCredential, to found: inout UserPartitions) {
        let parts = credentials(of: fields)
        guard !isPrivate, !parts.isEmpty else { return }
        let head = RequestHead(method: .get, target: [UInt8(ascii: "/")][...], version: .http11, fields: fields)
        let own = partition(parts)
        for rules in rules.all where !rules.areIgnored {
            found.add(own)
            if rules.lookUp != nil, isKeyedByHost, !fields.contains(.host) {
                found.obstacle =
                    "credentials.identity.lookup has a result for each host, because the upstream receives the host "
                    + "(forwarding.preserve_host), so responses stored for the user are not found: add a line Host: NAME to the "
                    + "credential, and repeat the purge for each host"
            } else if let index = rules.lookUp, index < lookUps.count {
                let hash = isKeyedByHost ? partition(parts + hostPart(of: head)) : own
                let known = lookUps[index].find(hash, now: time().wall.milliseconds).partition
                found.add(known)
                if user.isWhole(fields) { found.note(lookUp: index, isKnown: known != nil) }
            } else if let index = rules.tokens, index < tokens.count, fields.contains(.authorization) {
                let identity = tokens[index].identity(
                    of: fields, hash: own, now: time().wall.milliseconds, clock: time().monotonic
                ) { partition(credentials(of: fields, authorizedBy: .claims($0))) }
                switch identity {
                case .verified(let user), .expired(let user): found.add(user.partition)
                case .refused(.unknownKey), .refused(.tooMany), .refused(.notYetValid):
                    found.obstacle =
                        "credentials.identity cannot verify this token now (\(identity.outcome.label)), so responses stored for its user "
                        + "are not found: repeat the purge later, or with another token"
                case .refused, .lookedUp: break
                }
            }
        }
    }
}

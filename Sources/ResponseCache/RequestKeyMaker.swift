// Builds the cache key of a request: the canonical target, the partition of its credentials, and the fields that the operator added.

import CachePolicy
import Forwarding
import HTTPCore
import Identity

public final class RequestKeyMaker {
    /// The API's name in keys.
    let authority: [UInt8]
    /// Whether the cache serves a single user; keys then have no partitions.
    let isPrivate: Bool
    let isKeyedByHost: Bool
    /// Hashes credentials with the secret of the store or of a fleet; nil if nothing is stored.
    let hash: CredentialHash?
    /// Kinds of fields, except Cookie and the fields of `KnownField`.
    let kinds: FieldKindMemo
    /// Credential fields in `KnownField`, which are recognized by number.
    private let knownCredentials: KnownFieldSet
    /// Fields in `KnownField` that are neither harmless nor credentials.
    let knownUnknown: KnownFieldSet
    /// Whether hosts in Forwarded count as an unknown field.
    let comparesForwardedHosts: Bool
    /// Whether unknown fields count. Under `strict` they do not, because only Vary applies.
    let comparesUnknown: Bool
    /// Selects the cookies that count; nil if Cookie is not a credential field.
    let cookies: CredentialCookies?
    private let keyNames: [[UInt8]]
    let rules: CredentialTable
    /// Whether credentials are ignored on some paths.
    private let ignoresSome: Bool
    /// Verified tokens, indexed as in the credential rules.
    let tokens: [RequestIdentities]
    let lookUps: [LookedUpIdentities]
    private let carriers: TokenCarriers
    /// Hash tokens with each secret of the fleet, so that nodes can announce writes with a token; empty if nothing is shared.
    private let tokenHashes: [CredentialHash]
    let time: () -> CacheTime
    /// Prefix of keys without partition and extra parts, which are the most frequent ones.
    private let plainPrefix: [UInt8]

    public convenience init(_ settings: ResponseCacheSettings) {
        self.init(settings, hash: nil) { CacheTime(wall: Timestamp(milliseconds: 0), monotonic: 0) }
    }

    /// - Parameter time: clock for the expiry of tokens.
    init(_ settings: ResponseCacheSettings, hash: CredentialHash?, time: @escaping () -> CacheTime) {
        let policy = settings.policy
        authority = settings.keyName
        isPrivate = policy.isPrivate
        isKeyedByHost = settings.isKeyedByHost
        self.hash = hash
        let names = policy.credentials.fields.filter { $0 != "cookie" }
        let kinds = RequestFieldKinds(policy)
        self.kinds = FieldKindMemo(kinds)
        var (known, unknown) = (KnownFieldSet(), KnownFieldSet())
        for name in names { KnownField(Array(name.utf8).span).map { known.insert($0) } }
        for field in KnownField.allCases where !known.contains(field) && field != .cookie {
            let name = field.name.withUTF8Buffer { Array($0) }
            if kinds.kind(of: name.span) == .unknown { unknown.insert(field) }
        }
        (knownCredentials, knownUnknown) = (known, unknown)
        comparesForwardedHosts = policy.passesForwarded && !known.contains(.forwarded) && !unknown.contains(.forwarded)
        comparesUnknown = policy.strictness == .rescue && hash != nil
        cookies = policy.credentials.fields.contains("cookie") ? CredentialCookies(policy) : nil
        carriers = TokenCarriers(policy)
        tokenHashes = settings.fleet?.hashes ?? []
        rules = settings.credentials
        ignoresSome = settings.credentials.ignoresSome
        tokens = hash == nil ? [] : settings.tokens.map { RequestIdentities($0.settings, $0.keys) }
        lookUps = hash == nil ? [] : settings.lookUps
        self.time = time
        keyNames = policy.keyFields.filter { $0 != ConnectionField.scheme }.map { Array($0.utf8) }
        plainPrefix = CacheKey.prefix(authority: authority)
    }

    /// Offset of the partition in a key.
    public var partitionOffset: Int { 1 + 4 + authority.count + 4 }

    /// Returns the keys of a request and, if the rules map credentials to users, the identity of its user.
    /// - Parameters:
    ///   - own: empty buffer for the most frequent key.
    ///   - rules: the route's rules for arguments.
    ///   - content: canonical content of the request, if the response depends on it; nil otherwise.
    ///   - unknown: the request's unknown fields, hashed by this object.
    func keys(
        for head: RequestHead, target: Span<UInt8>, rules: ArgumentRules?, content: [UInt8]?, unknown: UnknownFields?, in own: inout [UInt8]
    ) -> (keys: TargetKeys, identity: RequestIdentity?) {
        let extra = extra(of: head, content)
        let partition = partition(of: head)
        CacheKey.append(to: &own, prefix: prefix(partition.bytes, extra), target: target, rules: rules)
        guard !partition.bytes.isEmpty else { return (TargetKeys(own: own, credentialFree: own, unknownFields: unknown), nil) }
        func key(in partition: [UInt8]) -> [UInt8] {
            var key: [UInt8] = []
            CacheKey.append(to: &key, prefix: prefix(partition, extra), target: target, rules: rules)
            return key
        }
        var keys = TargetKeys(own: own, credentialFree: key(in: []), unknownFields: unknown)
        keys.common = commonPartition(of: head).map(key)
        switch partition.identity {
        case .expired(let identity) where time().wall.milliseconds < identity.rescueEnds:
            keys.former = FormerKey(key(in: identity.partition), .expiredToken)
        case .lookedUp(let identity) where !identity.isCurrent:
            keys.former = identity.partition.map { FormerKey(key(in: $0), .lookedUpBefore) }
        case .verified, .expired, .refused, .lookedUp, nil: break
        }
        return (keys, partition.identity)
    }

    /// Returns whether a key consists of the target only, and is thus equal on all nodes.
    func isPlain(_ key: [UInt8]) -> Bool { key.starts(with: plainPrefix) }

    /// Appends the target's key in the partition without credentials.
    func appendCredentialFreeKey(to key: inout [UInt8], head: RequestHead, target: Span<UInt8>, rules: ArgumentRules?) {
        CacheKey.append(to: &key, prefix: prefix([], extra(of: head, nil)), target: target, rules: rules)
    }

    private func prefix(_ partition: [UInt8], _ extra: [UInt8]) -> [UInt8] {
        guard !partition.isEmpty || !extra.isEmpty else { return plainPrefix }
        return CacheKey.prefix(authority: authority, partition: partition, extra: extra)
    }

    /// Returns a number for the user of a request; 0 without credentials. If responses are stored, it is the first bytes of the partition,
    /// or of the partition that the credentials would have.
    public func user(of head: RequestHead) -> UInt64 {
        let parts = credentials(of: head.fields)
        guard !parts.isEmpty else { return 0 }
        guard hash != nil else { return UInt64(truncatingIfNeeded: parts.hashValue) }
        let own = partition(of: head).bytes
        return (own.isEmpty ? partition(parts) : own).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Returns a number for the credentials themselves, whatever user they belong to; 0 without credentials.
    func credentialsNumber(of head: RequestHead) -> UInt64 {
        let parts = credentials(of: head.fields)
        return parts.isEmpty ? 0 : partition(parts).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Returns the number of `user(of:)` for a request that was looked up.
    /// - Parameters:
    ///   - key: the request's own key.
    ///   - isPartitioned: whether the key contains a partition.
    public func user(of head: RequestHead, at key: [UInt8], isPartitioned: Bool) -> UInt64 {
        if isPartitioned { return user(inKey: key) }
        // If keys have partitions, a request without one has no credentials.
        return isPrivate || ignoresSome ? user(of: head) : 0
    }

    /// Returns a number for the partition of a key; 0 if it has none.
    func user(inKey key: [UInt8]) -> UInt64 {
        let offset = partitionOffset
        guard offset + 8 <= key.count else { return 0 }
        return key.withUnsafeBytes { bytes in
            guard bytes.loadUnaligned(fromByteOffset: offset - 4, as: UInt32.self) != 0 else { return 0 }
            return UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
    }

    /// Returns the partition and the user's identity. The partition is empty if responses are equal for all users.
    private func partition(of head: RequestHead) -> (bytes: [UInt8], identity: RequestIdentity?) {
        let rules = rules.specialRules(for: head)
        guard !isPrivate, rules?.areIgnored != true else { return ([], nil) }
        let parts = credentials(of: head.fields)
        guard !parts.isEmpty else { return ([], nil) }
        let own = partition(parts)
        guard let rules, rules.mapsCredentialsToUsers else { return (own, nil) }
        let time = time()
        if let index = rules.lookUp, index < lookUps.count {
            // With several hosts, each may identify another user.
            let lookUpKey = isKeyedByHost ? partition(parts + hostPart(of: head)) : own
            let lookedUp = lookUps[index].find(lookUpKey, tokens: tokens(of: head.fields), now: time.wall.milliseconds)
            let identity = RequestIdentity.lookedUp(lookedUp)
            return (identity.partition ?? lookedUp.ownPartition(own), identity)
        }
        guard let index = rules.tokens, index < tokens.count, head.fields.contains(.authorization) else { return (own, nil) }
        let identity = tokens[index].identity(
            of: head.fields, hash: own, now: time.wall.milliseconds, clock: time.monotonic
        ) { partition(credentials(of: head.fields, authorizedBy: .claims($0))) }
        return (identity.partition ?? own, identity)
    }

    /// Returns whether the partition of a request does not depend on the upstream's lookup result, nor on writes that this node has seen.
    func isWithoutLookUp(_ head: RequestHead) -> Bool {
        rules.specialRules(for: head)?.lookUp == nil || credentials(of: head.fields).isEmpty
    }

    func hostPart(of head: RequestHead) -> [UInt8] {
        var part: [UInt8] = []
        // No field name contains a space.
        CacheKey.appendPart(Array("asked at".utf8), to: &part)
        CacheKey.appendPart(head.host.map(\.asciiLowercased), to: &part)
        return part
    }

    /// Returns the partition of requests with equal lookup results that agree in all credentials except their tokens. It depends on the
    /// names of the selected values too: after a change of the settings, equal values may identify another user.
    public func partition(
        identity values: [UInt8], by settings: LookUpSettings, of fields: Fields, without carrier: TokenCarriers.Carrier
    ) -> [UInt8] {
        func list(_ names: [String]) -> [UInt8] { names.reduce(into: []) { CacheKey.appendPart(Array($1.utf8), to: &$0) } }
        let fieldNames = settings.fields.map { $0.lowercased() }
        var parts: [UInt8] = []
        // No field name contains a space.
        for part in [Array("looked-up identity".utf8), Array(settings.path.utf8), list(settings.pointers), list(fieldNames), values] {
            CacheKey.appendPart(part, to: &parts)
        }
        return partition(parts + credentials(of: carriers.removing(carrier, from: fields)))
    }

    /// Returns the credential that carries a request's token, and its hash; nil if it is ambiguous.
    public func token(of fields: Fields) -> (carrier: TokenCarriers.Carrier, hash: [UInt8])? {
        carriers.carrier(of: fields).map { ($0, tokenHash(carriers.bytes(of: $0, in: fields))) }
    }

    /// Returns the fields without the credential that carries the token. Ignored cookies remain, because a load balancer may need them.
    public func withoutToken(_ fields: Fields) -> Fields {
        switch carriers.carrier(of: fields) {
        case nil: return Fields()
        case .field(let index)?: return carriers.removing(.field(index), from: fields)
        case .cookie(let token)?:
            var rest = fields
            rest.remove(.cookie)
            for line in fields.all(.cookie) {
                let pieces = line.split(separator: UInt8(ascii: ";")).filter { piece in
                    !piece.prefix { $0 != UInt8(ascii: "=") }.trimmed.elementsEqual(token.name)
                }
                if !pieces.isEmpty { rest.append(.cookie, Array(Array(pieces.joined(separator: [UInt8(ascii: ";")]))[...].trimmed)) }
            }
            return rest
        }
    }

    /// Returns the hashes of all credentials that may be a request's token.
    public func tokens(of fields: Fields) -> [[UInt8]] { carriers.allBytes(in: fields).map(tokenHash) }

    /// Returns the hashes of these credentials with each secret of the fleet, without duplicates. During a change of secrets, another node
    /// may use any of these secrets as its first one.
    func announcedTokens(of fields: Fields) -> [[UInt8]] {
        guard !tokenHashes.isEmpty else { return [] }
        let all = carriers.allBytes(in: fields).prefix(Self.announcedLimit).flatMap { token in
            tokenHashes.map { Self.shortened($0(token)) }
        }
        return Set(all).sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// Maximum number of credentials, so that a client cannot fill the log with one request. A client that sends more affects only its own
    /// session: other nodes may continue to use its former user.
    private static let announcedLimit = 128

    private func tokenHash(_ token: [UInt8]) -> [UInt8] { tokenHashes.first.map { Self.shortened($0(token)) } ?? partition(token) }

    private static func shortened(_ hash: [UInt8]) -> [UInt8] { Array(hash.prefix(FleetMembership.tokenBytes)) }

    /// Returns whether a response changes its client's credentials.
    public func areCredentialsChanged(by response: Fields) -> Bool { carriers.areChanged(by: response) }

    /// Returns the partition common to all requests with Authorization and equal other credentials; nil if the route does not share
    /// responses.
    private func commonPartition(of head: RequestHead) -> [UInt8]? {
        guard head.fields.contains(.authorization), knownCredentials.contains(.authorization),
            rules.specialRules(for: head)?.sharesPublic == true
        else { return nil }
        return partition(credentials(of: head.fields, authorizedBy: .anybody))
    }

    /// Counts of verified tokens in this instance, for metrics.
    public var tokenFigures: (lookUpResults: [String: UInt64], remembered: Int) {
        tokens.reduce(into: ([:], 0)) { sum, one in
            sum.0.merge(one.counts, uniquingKeysWith: +)
            sum.1 += one.count
        }
    }

    func partition(_ parts: [UInt8]) -> [UInt8] { hash?(parts) ?? [] }

    /// Returns whether a request has any field that may carry credentials. Authorization counts even if the operator does not list it.
    public func hasCredentials(_ fields: Fields) -> Bool {
        fields.contains(.authorization) || (cookies != nil && fields.contains(.cookie)) || hasOtherCredentials(fields)
    }

    /// Returns a keyed hash of a request's credentials, for a path where they do not separate responses.
    func ignoredCredentials(of fields: Fields) -> [UInt8] { partition(credentials(of: fields, authorizedBy: .itself)) }

    /// Returns whether a request has credentials other than cookies.
    func hasOtherCredentials(_ fields: Fields) -> Bool { !credentials(of: fields, withCookies: false).isEmpty }

    /// Returns the partition of a request with these cookies and no other credentials; nil if no cookie counts, or they are ambiguous.
    func cookiePartition(of fields: Fields) -> [UInt8]? {
        guard let pairs = cookies?.pairs(of: fields), !pairs.isEmpty else { return nil }
        return partition(of: pairs)
    }

    func partition(of cookies: [CredentialCookies.Pair]) -> [UInt8] {
        var parts: [UInt8] = []
        CredentialCookies.append(cookies, to: &parts)
        return partition(parts)
    }

    /// The Authorization field as a part of the credentials: the field itself, or its token's claims.
    enum Authorization {
        case itself
        case anybody
        /// Claims of the token that are constant for its user.
        case claims([UInt8])

        fileprivate var isItself: Bool { if case .itself = self { true } else { false } }
    }

    /// Whether a request asks for a token in the response, as OData does. A stored response has none.
    public static func asksForToken(_ fields: Fields) -> Bool { fields.entries.contains { asksForToken($0, fields) } }

    private static func asksForToken(_ entry: Fields.Entry, _ fields: Fields) -> Bool {
        fields.bytes[entry.valueRange].equalsIgnoringCase("fetch")
            && CredentialNames.isForgeryToken(fields.bytes.span.extracting(entry.nameRange))
    }

    func credentials(of fields: Fields, authorizedBy authorization: Authorization = .itself, withCookies: Bool = true) -> [UInt8] {
        var parts: [UInt8] = []
        // Appended before the other parts. No field name contains a space.
        switch authorization {
        case .itself: break
        case .anybody: CacheKey.appendPart(Array("anybody's authorization".utf8), to: &parts)
        case .claims(let claims):
            CacheKey.appendPart(Array("claims of a token".utf8), to: &parts)
            CacheKey.appendPart(claims, to: &parts)
        }
        for entry in fields.entries {
            if let known = entry.known {
                guard knownCredentials.contains(known), known != .authorization || authorization.isItself else { continue }
            } else if kinds.kind(of: fields.bytes.span.extracting(entry.nameRange)) != .credential, !Self.asksForToken(entry, fields) {
                continue
            }
            CacheKey.appendPart(fields.bytes[entry.nameRange].map(\.asciiLowercased), to: &parts)
            CacheKey.appendPart(Array(fields.bytes[entry.valueRange]), to: &parts)
        }
        if withCookies, fields.contains(.cookie) { cookies?.append(of: fields, to: &parts) }
        return parts
    }

    /// Whether a target's key without credentials contains only the target and the scheme.
    var hasPlainKeys: Bool { !isKeyedByHost && keyNames.isEmpty }

    /// The additional parts that the settings add to keys.
    var extraShape: KeyExtra.Shape { KeyExtra.Shape(hasHost: isKeyedByHost, fieldNames: keyNames) }

    private func extra(of head: RequestHead, _ content: [UInt8]?) -> [UInt8] {
        let isSecure = head.fields.areMarkedSecure
        guard isKeyedByHost || !keyNames.isEmpty || content != nil || isSecure else { return [] }
        let fields = keyNames.map { name in
            KeyExtra.Field(
                name: name,
                values: head.fields.all(named: name.span).map { Array($0) } + head.fields.all(readAs: name.span).map { Array($0) })
        }
        let host = isKeyedByHost ? head.host.map(\.asciiLowercased) : nil
        return KeyExtra(content: content, host: host, fields: fields, isSecure: isSecure).encoded
    }
}

/// A line of an unknown field.
struct UnknownFieldLine {
    /// In lower case.
    let name: [UInt8]
    let value: [UInt8]

    /// Whether a proxy in front, or a client, states the requested host, scheme or path. An upstream may choose a tenant by it.
    /// X-Forwarded-Server names the proxy.
    var statesHost: Bool {
        guard name.starts(with: "x".utf8) || name.starts(with: "f".utf8) else { return false }
        let read = name.map { $0 == UInt8(ascii: "_") ? UInt8(ascii: "-") : $0 }
        return read == ForwardedHosts.field || read.starts(with: ForwardedHosts.prefix) && read != ForwardedHosts.proxy
    }
}

extension RequestKeyMaker {
    /// Returns the request's unknown fields; nil if it has none, which is the common case. Called for every hit.
    /// - Parameters:
    ///   - unforwarded: names of fields that the upstream does not receive from clients.
    ///   - judge: returns for each line whether its field changes with each request.
    func unknownFields(
        of head: RequestHead, besides unforwarded: @autoclosure () -> [[UInt8]], judge: (_ lines: [UnknownFieldLine]) -> [Bool]
    ) -> UnknownFields? {
        // The upstream receives the client's spelling of the path, and may not treat it as the key's one.
        let target = head.pathAndQuery
        var path: UnknownFieldLine?
        if hash != nil, target.span.first(UInt8(ascii: "%")) != nil, !CacheKey.isCanonical(path: target.withoutQuery) {
            path = UnknownFieldLine(name: UnknownFields.path, value: Array(target.withoutQuery))
        }
        let hasLines = comparesUnknown && head.fields.entries.contains { isUnknown($0, in: head.fields) }
        guard path != nil || hasLines else { return nil }
        let lines = hasLines ? unknownLines(of: head.fields, besides: unforwarded()) : []
        guard path != nil || !lines.isEmpty else { return nil }
        let all = path.map { [$0] + lines } ?? lines
        let isChanging = (path == nil ? [] : [false]) + judge(lines)
        let ofHosts = lines.filter(\.statesHost)
        let isOfHosts = ofHosts.count == all.count
        let hosts = ofHosts.isEmpty || isOfHosts ? nil : unknownFields(ofHosts, ofHosts.map { _ in false }, isOfHosts: true)
        return unknownFields(all, isChanging, isOtherSpelling: path != nil, hosts: hosts, isOfHosts: isOfHosts)
    }

    /// - Parameter isChanging: for each line, whether its field changes with each request.
    private func unknownFields(
        _ lines: [UnknownFieldLine], _ isChanging: [Bool], isOtherSpelling: Bool = false, hosts: UnknownFields? = nil, isOfHosts: Bool
    ) -> UnknownFields {
        var (kept, exact, changing): ([UInt8], [UInt8], [[UInt8]]) = ([], [], [])
        for (line, isChanging) in zip(lines, isChanging) {
            let isLeftOut = isChanging && !line.statesHost
            CacheKey.appendPart(line.name, to: &exact)
            CacheKey.appendPart(line.value, to: &exact)
            CacheKey.appendPart(line.name, to: &kept)
            kept.append(isLeftOut ? 2 : 1)
            if isLeftOut { changing.append(line.name) } else { CacheKey.appendPart(line.value, to: &kept) }
        }
        return UnknownFields(
            hash: number(of: kept), kept: kept, exact: exact, changing: changing, isOtherSpelling: isOtherSpelling, hosts: hosts,
            isOfHosts: isOfHosts)
    }

    private func unknownLines(of fields: Fields, besides unforwarded: [[UInt8]]) -> [UnknownFieldLine] {
        var lines: [UnknownFieldLine] = []
        for entry in fields.entries where isUnknown(entry, in: fields) {
            if UpstreamFieldRules.contains(fields.bytes.span.extracting(entry.nameRange), in: unforwarded) { continue }
            let name = fields.bytes[entry.nameRange].map(\.asciiLowercased)
            let value = fields.bytes[entry.valueRange]
            let carriesHost = entry.known == .forwarded && comparesForwardedHosts
            lines.append(UnknownFieldLine(name: name, value: carriesHost ? ForwardedHosts.parts(of: value) : Array(value)))
        }
        // The order of fields has no meaning; lines with one name keep their order.
        guard lines.count > 1 else { return lines }
        let sorted = lines.enumerated().sorted { one, other in
            one.element.name == other.element.name
                ? one.offset < other.offset : one.element.name.lexicographicallyPrecedes(other.element.name)
        }
        return sorted.map(\.element)
    }

    /// Returns these fields, hashed with this object's secret.
    func hashed(_ unknown: UnknownFields?) -> UnknownFields? { unknown?.rehashed(number) }

    @inline(__always)
    private func isUnknown(_ entry: Fields.Entry, in fields: Fields) -> Bool {
        if let known = entry.known {
            return knownUnknown.contains(known) || (known == .forwarded && comparesForwardedHosts && namesHosts(entry, in: fields))
        }
        return kinds.kind(of: fields.bytes.span.extracting(entry.nameRange)) == .unknown
    }

    @inline(never)
    private func namesHosts(_ entry: Fields.Entry, in fields: Fields) -> Bool {
        !ForwardedHosts.parts(of: fields.bytes[entry.valueRange]).isEmpty
    }

    private func number(of parts: [UInt8]) -> UInt64 {
        var text: [UInt8] = []
        // No field name contains a space.
        CacheKey.appendPart(Array("unknown fields".utf8), to: &text)
        return (hash?(text + parts) ?? []).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

// The key of one request: the canonical target, the partition of its credentials, and the fields that the operator made part of it.

import CachePolicy
import HTTPCore
import Identity

public struct RequestKeyMaker {
    /// The API, as it is named in keys.
    let authority: [UInt8]
    /// One user's own cache has no partitions.
    private let isPrivate: Bool
    private let isKeyedByHost: Bool
    /// Hashes credentials by a secret: the store's, or that of a fleet; nil where nothing is stored.
    let hash: FleetHashing.Hash?
    /// What fields mean, but for Cookie and those that have a number.
    let kinds: FieldKindMemo
    /// Those of them that have a number: any other field that has one is told apart by it.
    private let knownCredentials: KnownFieldSet
    /// The fields with a number that are neither harmless nor credentials.
    let knownUnknown: KnownFieldSet
    /// Whether hosts in Forwarded count as an unknown field.
    let comparesForwardedHosts: Bool
    /// Whether unknown fields count: not to the letter, which knows Vary only.
    let comparesUnknown: Bool
    /// Which cookies count; nil where Cookie is no credential field.
    let cookies: CredentialCookies?
    private let keyNames: [[UInt8]]
    private let rules: CredentialTable
    /// Whether credentials make no difference on some paths.
    private let ignoresSome: Bool
    /// What is known of requests' tokens, at the place that the rules name.
    private let tokens: [RequestIdentities]
    private let lookUps: [ToldIdentities]
    private let carriers: TokenCarriers
    private let time: () -> CacheTime
    /// Of almost every key.
    private let plainPrefix: [UInt8]

    public init(_ settings: ResponseCacheSettings) {
        self.init(settings, hash: nil) { CacheTime(wall: Timestamp(milliseconds: 0), monotonic: 0) }
    }

    /// - Parameter time: by which tokens end.
    init(_ settings: ResponseCacheSettings, hash: FleetHashing.Hash?, time: @escaping () -> CacheTime) {
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
        rules = settings.credentials
        ignoresSome = settings.credentials.ignoresSome
        tokens = hash == nil ? [] : settings.tokens.map { RequestIdentities($0.settings, $0.keys) }
        lookUps = hash == nil ? [] : settings.lookUps
        self.time = time
        keyNames = policy.keyFields.filter { $0 != ConnectionField.scheme }.map { Array($0.utf8) }
        plainPrefix = CacheKey.prefix(authority: authority)
    }

    /// Where the partition lies in a key.
    public var partitionOffset: Int { 1 + 4 + authority.count + 4 }

    /// Where a request is looked up, and whose its token is, where that is looked at.
    /// - Parameters:
    ///   - own: empty memory for the key that is made most often.
    ///   - rules: what the target's route says of arguments.
    ///   - content: what the request's content says, where the response depends on it.
    ///   - unknown: its unknown fields, hashed by this maker.
    func keys(
        for head: RequestHead, target: Span<UInt8>, rules: ArgumentRules?, content: [UInt8]?, unknown: UnknownFields?, in own: inout [UInt8]
    ) -> (keys: TargetKeys, identity: RequestIdentity?) {
        let extra = extra(of: head, content)
        let partition = partition(of: head)
        CacheKey.append(to: &own, prefix: prefix(partition.bytes, extra), target: target, rules: rules)
        guard !partition.bytes.isEmpty else { return (TargetKeys(own: own, shared: own, unknownFields: unknown), nil) }
        func key(in partition: [UInt8]) -> [UInt8] {
            var key: [UInt8] = []
            CacheKey.append(to: &key, prefix: prefix(partition, extra), target: target, rules: rules)
            return key
        }
        var keys = TargetKeys(own: own, shared: key(in: []), unknownFields: unknown)
        keys.common = commonPartition(of: head).map(key)
        switch partition.identity {
        case .expired(let identity) where time().wall.milliseconds < identity.rescueEnds:
            keys.former = FormerKey(key(in: identity.partition), .expiredToken)
        case .told(let told) where !told.isCurrent: keys.former = told.partition.map { FormerKey(key(in: $0), .toldBefore) }
        case .verified, .expired, .refused, .told, nil: break
        }
        return (keys, partition.identity)
    }

    /// Whether a key is made of the target alone: then it is the same on all nodes.
    func isPlain(_ key: [UInt8]) -> Bool { key.starts(with: plainPrefix) }

    /// The same target's key in the partition of those without credentials.
    func appendShared(
        to key: inout [UInt8], head: RequestHead, target: Span<UInt8>, rules: ArgumentRules?, content: [UInt8]? = nil
    ) {
        CacheKey.append(to: &key, prefix: prefix([], extra(of: head, content)), target: target, rules: rules)
    }

    private func prefix(_ partition: [UInt8], _ extra: [UInt8]) -> [UInt8] {
        guard !partition.isEmpty || !extra.isEmpty else { return plainPrefix }
        return CacheKey.prefix(authority: authority, partition: partition, extra: extra)
    }

    /// A number that stands for who asks; 0 without credentials. Where something is stored it is the first part of their partition, or, where
    /// there is none, of the one that they would have.
    public func user(of head: RequestHead) -> UInt64 {
        let parts = credentials(of: head.fields)
        guard !parts.isEmpty else { return 0 }
        guard hash != nil else { return UInt64(truncatingIfNeeded: parts.hashValue) }
        let own = partition(of: head).bytes
        return (own.isEmpty ? partition(parts) : own).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The same, where the request was looked up already.
    /// - Parameters:
    ///   - key: its own.
    ///   - isPartitioned: it has a partition in it.
    public func user(of head: RequestHead, at key: [UInt8], isPartitioned: Bool) -> UInt64 {
        if isPartitioned { return user(inKey: key) }
        // Who has no partition has no credentials, where there are partitions.
        return isPrivate || ignoresSome ? user(of: head) : 0
    }

    /// The same without tokens against forged requests, which many send with writes only; nil where there are none.
    public func userWithoutForgeryTokens(of head: RequestHead) -> UInt64? {
        let tokens = head.fields.entries.lazy.filter { $0.known == nil }.map { head.fields.bytes[$0.nameRange] }.filter(Self.isForgeryToken)
        guard !tokens.isEmpty else { return nil }
        var fields = head.fields
        for name in tokens { fields.remove(named: Array(name).span) }
        return user(of: RequestHead(method: head.method, target: head.target, version: head.version, fields: fields))
    }

    /// X-CSRF-Token, X-CSRFToken, X-XSRF-TOKEN and their like.
    private static func isForgeryToken(_ name: ArraySlice<UInt8>) -> Bool {
        name.indices.dropLast(3).contains { index in
            let part = name[index..<index + 4]
            return part.equalsIgnoringCase("csrf") || part.equalsIgnoringCase("xsrf")
        }
    }

    /// Whether two keys have the same partition.
    func haveOnePartition(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        let start = partitionOffset - 4
        guard one.count >= partitionOffset, other.count >= partitionOffset else { return one == other }
        let length = (0..<4).reduce(0) { $0 | Int(one[start + $1]) << (8 * $1) }
        let end = min(start + 4 + length, one.count)
        return one[start..<end].elementsEqual(other[start..<min(end, other.count)])
    }

    private func user(inKey key: [UInt8]) -> UInt64 {
        let offset = partitionOffset
        guard offset + 8 <= key.count else { return 0 }
        return key.withUnsafeBytes { bytes in
            guard bytes.loadUnaligned(fromByteOffset: offset - 4, as: UInt32.self) != 0 else { return 0 }
            return UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
    }

    /// Empty where all have the same responses.
    private func partition(of head: RequestHead) -> (bytes: [UInt8], identity: RequestIdentity?) {
        let rules = rules.specialRules(for: head)
        guard !isPrivate, rules?.areIgnored != true else { return ([], nil) }
        let parts = credentials(of: head.fields)
        guard !parts.isEmpty else { return ([], nil) }
        let own = partition(parts)
        guard let rules, rules.looksAtUsers else { return (own, nil) }
        let time = time()
        if let place = rules.lookUp, place < lookUps.count {
            // Of several hosts, each may say another.
            let asked = isKeyedByHost ? partition(parts + hostPart(of: head)) : own
            let told = RequestIdentity.told(lookUps[place].find(asked, now: time.wall.milliseconds))
            return (told.partition ?? own, told)
        }
        guard let place = rules.tokens, place < tokens.count, head.fields.contains(.authorization) else { return (own, nil) }
        let identity = tokens[place].identity(
            of: head.fields, hash: own, now: time.wall.milliseconds, clock: time.monotonic
        ) { partition(credentials(of: head.fields, authorizedBy: .claims($0))) }
        return (identity.partition ?? own, identity)
    }

    /// Whether a key has no partition that the upstream has named: what it says of the same credentials may be something else tomorrow.
    func isUntold(_ key: [UInt8], of head: RequestHead) -> Bool {
        guard rules.specialRules(for: head)?.lookUp != nil else { return true }
        let parts = credentials(of: head.fields)
        return parts.isEmpty || key.dropFirst(partitionOffset).starts(with: partition(parts))
    }

    private func hostPart(of head: RequestHead) -> [UInt8] {
        var part: [UInt8] = []
        // No field has a name with a space in it.
        CacheKey.appendPart(Array("asked at".utf8), to: &part)
        CacheKey.appendPart(head.host.map(\.asciiLowercased), to: &part)
        return part
    }

    /// The partition of all requests of which the upstream has said the same, and that agree in all credentials but their tokens.
    public func partition(
        told values: [UInt8], by settings: LookUpSettings, of fields: Fields, without carrier: TokenCarriers.Carrier
    ) -> [UInt8] {
        var parts: [UInt8] = []
        // No field has a name with a space in it.
        for part in [Array("what was told".utf8), Array(settings.path.utf8), values] { CacheKey.appendPart(part, to: &parts) }
        return partition(parts + credentials(of: carriers.removing(carrier, from: fields)))
    }

    /// The credential that carries a request's token, and its hash; nil if that is unclear.
    public func token(of fields: Fields) -> (carrier: TokenCarriers.Carrier, hash: [UInt8])? {
        carriers.carrier(of: fields).map { ($0, partition(carriers.bytes(of: $0, in: fields))) }
    }

    /// The hashes of all credentials that may be a request's token.
    public func tokens(of fields: Fields) -> [[UInt8]] { carriers.allBytes(in: fields).map { partition($0) } }

    /// Whether a response changes its client's credentials.
    public func areCredentialsChanged(by response: Fields) -> Bool { carriers.areChanged(by: response) }

    /// That of all who send Authorization, and the same other credentials; nil where the route shares nothing.
    private func commonPartition(of head: RequestHead) -> [UInt8]? {
        guard head.fields.contains(.authorization), knownCredentials.contains(.authorization),
            rules.specialRules(for: head)?.sharesPublic == true
        else { return nil }
        return partition(credentials(of: head.fields, authorizedBy: .anybody))
    }

    /// What was found of tokens here, for metrics.
    public var tokenFigures: (looked: [String: UInt64], remembered: Int) {
        tokens.reduce(into: ([:], 0)) { sum, one in
            sum.0.merge(one.counts, uniquingKeysWith: +)
            sum.1 += one.count
        }
    }

    private func partition(_ parts: [UInt8]) -> [UInt8] { hash?(parts) ?? [] }

    /// Whether a request has any field that may carry credentials, whosever; Authorization does, also where the operator does not name it.
    public func hasCredentials(_ fields: Fields) -> Bool {
        fields.contains(.authorization) || (cookies != nil && fields.contains(.cookie)) || hasOtherCredentials(fields)
    }

    /// Whether a request has credentials beside its cookies.
    func hasOtherCredentials(_ fields: Fields) -> Bool { !fieldCredentials(of: fields).isEmpty }

    /// That of a request with the same cookies and no other credentials; nil where none counts, or it is unclear which they are.
    func cookiePartition(of fields: Fields) -> [UInt8]? {
        guard let pairs = cookies?.pairs(of: fields), !pairs.isEmpty else { return nil }
        return partition(of: pairs)
    }

    func partition(of cookies: [CredentialCookies.Pair]) -> [UInt8] {
        var parts: [UInt8] = []
        CredentialCookies.append(cookies, to: &parts)
        return partition(parts)
    }

    /// What stands for the Authorization field among the credentials.
    private enum Authorization {
        case itself
        case anybody
        /// What its token says that stays the same for its user.
        case claims([UInt8])

        /// Stands before the other parts. No field has a name with a space in it.
        func append(to parts: inout [UInt8]) {
            switch self {
            case .itself: break
            case .anybody: CacheKey.appendPart(Array("anybody's authorization".utf8), to: &parts)
            case .claims(let claims):
                CacheKey.appendPart(Array("claims of a token".utf8), to: &parts)
                CacheKey.appendPart(claims, to: &parts)
            }
        }

        var isItself: Bool { if case .itself = self { true } else { false } }
    }

    private func credentials(of fields: Fields, authorizedBy authorization: Authorization = .itself) -> [UInt8] {
        var parts = fieldCredentials(of: fields, authorizedBy: authorization)
        if fields.contains(.cookie) { cookies?.append(of: fields, to: &parts) }
        return parts
    }

    private func fieldCredentials(of fields: Fields, authorizedBy authorization: Authorization = .itself) -> [UInt8] {
        var parts: [UInt8] = []
        authorization.append(to: &parts)
        for entry in fields.entries {
            if let known = entry.known {
                guard knownCredentials.contains(known), known != .authorization || authorization.isItself else { continue }
            } else if kinds.kind(of: fields.bytes.span.extracting(entry.nameRange)) != .credential {
                continue
            }
            CacheKey.appendPart(fields.bytes[entry.nameRange].map(\.asciiLowercased), to: &parts)
            CacheKey.appendPart(Array(fields.bytes[entry.valueRange]), to: &parts)
        }
        return parts
    }

    /// Whether a target's key in the partition of those without credentials holds nothing but the target, and the scheme.
    var hasPlainKeys: Bool { !isKeyedByHost && keyNames.isEmpty }

    /// What the settings put into keys beside the target.
    var extraShape: KeyExtra.Shape { KeyExtra.Shape(hasHost: isKeyedByHost, fieldCount: keyNames.count) }

    private func extra(of head: RequestHead, _ content: [UInt8]?) -> [UInt8] {
        let isSecure = head.fields.areMarkedSecure
        guard isKeyedByHost || !keyNames.isEmpty || content != nil || isSecure else { return [] }
        let fields = keyNames.map { name in
            head.fields.all(named: name.span).map { Array($0) } + head.fields.all(readAs: name.span).map { Array($0) }
        }
        let host = isKeyedByHost ? head.host.map(\.asciiLowercased) : nil
        return KeyExtra(content: content, host: host, fields: fields, isSecure: isSecure).encoded
    }
}

// CORS preflights (Fetch §4.8): OPTIONS requests that ask whether a script may send a request to another origin. The response depends only
// on origin, method and field names, so it is cached by these, for the lifetime that it gives. It can be served during an outage: without a
// preflight response, a web app cannot use stored responses. RFC 9110 §9.3.7 does not permit caching OPTIONS; browsers do so, as Fetch
// defines. Disabled under `strict`.

import HTTPCore

public struct Preflight: Sendable {
    /// The origin as sent by the browser.
    public let origin: [UInt8]
    let method: [UInt8]
    /// Requested field names in lower case, sorted.
    let fields: [[UInt8]]
    /// Other Access-Control-Request fields (such as Access-Control-Request-Private-Network): names and values, sorted.
    private let others: [[UInt8]]

    /// Lifetime in seconds that browsers assume for a response without Access-Control-Max-Age (Fetch §4.9).
    public static let unsaidLifetime: Int64 = 5
    /// Maximum lifetime in seconds: no browser caches a preflight for longer than a day.
    public static let longestLifetime: Int64 = 86_400
    /// Maximum length of origin, method and fields together. The key is compared at every lookup, so longer preflights are not cached.
    private static let identityLimitBytes = 1 << 10

    /// nil if the request is not a preflight. A preflight has one origin and one method, and neither content nor credentials.
    /// - Parameter credentials: names of the credential fields.
    public init?(_ head: RequestHead, content: ContentFraming, credentials: CredentialNames) {
        guard head.method == .options, content == .none || content == .length(0) else { return nil }
        let request = head.fields
        guard request.all(.origin).count == 1, let origin = request.first(.origin), !origin.isEmpty,
            !request.containsAny(of: [.maxForwards, .authorization, .cookie])
        else { return nil }
        let methods = request.all(named: "access-control-request-method")
        guard methods.count == 1, let method = methods.first, !method.isEmpty else { return nil }
        guard !request.entries.contains(where: { credentials.contains(request.bytes.span.extracting($0.nameRange)) }) else { return nil }
        guard let wanted = Self.wantedFields(of: request) else { return nil }
        self.origin = Array(origin)
        self.method = Array(method)
        fields = Set(wanted).sorted { $0.lexicographicallyPrecedes($1) }
        others = Self.others(in: request)
        guard identity.count <= Self.identityLimitBytes else { return nil }
    }

    /// Everything that the response depends on besides the target, each part with its length. It replaces the identity of the request
    /// content in the key. No content identity begins like this.
    public var identity: [UInt8] {
        var identity = Self.beginning
        for part in [origin, method] + others + fields { CacheKey.appendPart(part, to: &identity) }
        return identity
    }

    /// Returns the field names that a preflight requests, in lower case. nil if one is not a valid name (it could be misread as another
    /// line), or if there are too many.
    static func wantedFields(of request: Fields) -> [[UInt8]]? {
        let lines = request.all(named: "access-control-request-headers")
        guard !FieldListLimit.isExceeded(by: lines) else { return nil }
        let names = lines.flatMap { FieldLists.members(of: $0, hasEscapes: false) }
        return names.allSatisfy { $0.allSatisfy(isTokenByte) } ? names.map { $0.map(\.asciiLowercased) } : nil
    }

    private static func others(in request: Fields) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        for index in 0..<request.count {
            let name = request.name(at: index)
            guard name.prefix(23).equalsIgnoringCase("access-control-request-"), !name.dropFirst(23).equalsIgnoringCase("method"),
                !name.dropFirst(23).equalsIgnoringCase("headers")
            else { continue }
            lines.append(name.map(\.asciiLowercased) + [UInt8(ascii: ":")] + request.value(at: index))
        }
        return lines.sorted { $0.lexicographicallyPrecedes($1) }
    }

    private static let beginning: [UInt8] = {
        var part: [UInt8] = []
        CacheKey.appendPart(Array("OPTIONS".utf8), to: &part)
        return part
    }()

    /// Returns whether this part of a key identifies a preflight.
    public static func isIdentity(_ part: [UInt8]) -> Bool { part.starts(with: beginning) }

    // MARK: Response

    /// Returns whether the response permits the script's request, by the rules of browsers. Other responses are forwarded and not stored.
    public func isAllowed(by response: ResponseHead) -> Bool {
        guard response.status.isSuccessful, OriginGrant(response.fields, to: origin[...]) != nil else { return false }
        guard Self.isSimple(method) || allows(method, "access-control-allow-methods", response.fields, ignoringCase: false) else {
            return false
        }
        return fields.allSatisfy { allows($0, "access-control-allow-headers", response.fields, ignoringCase: true) }
    }

    /// Methods that need no permission (Fetch §2.2.1).
    static func isSimple(_ method: some Sequence<UInt8>) -> Bool { ["GET", "HEAD", "POST"].contains { $0.utf8.elementsEqual(method) } }

    private func allows(_ word: [UInt8], _ name: StaticString, _ response: Fields, ignoringCase: Bool) -> Bool {
        let lines = response.all(named: name)
        guard !FieldListLimit.isExceeded(by: lines) else { return false }
        return lines.contains { line in
            FieldMembers(of: line, hasEscapes: false).contains { member in
                member.elementsEqual("*".utf8) || (ignoringCase ? member.map(\.asciiLowercased) == word : member.elementsEqual(word))
            }
        }
    }

    /// Returns the lifetime of the response in seconds.
    public static func lifetime(_ response: Fields) -> Int64 {
        let lines = response.all(named: "access-control-max-age")
        guard lines.count == 1, let text = lines.first?.trimmed, !text.isEmpty else { return unsaidLifetime }
        if text.first == UInt8(ascii: "-"), text.count > 1, text.dropFirst().allSatisfy(\.isASCIIDigit) { return 0 }
        guard text.allSatisfy(\.isASCIIDigit) else { return unsaidLifetime }
        return text.count > 9 ? longestLifetime : min(longestLifetime, text.reduce(0) { $0 * 10 + Int64($1 - 0x30) })
    }

    /// Appends Access-Control-Max-Age with the remaining lifetime. Browsers would count the original value from the time of receipt.
    /// Without the field, browsers assume five seconds and ask again; a stale response served during an outage therefore has none.
    /// - Parameter ttl: remaining lifetime in seconds; nil or 0 appends nothing.
    public static func appendMaxAge(_ ttl: Int64?, to lines: inout [UInt8]) {
        guard let ttl, ttl > 0 else { return }
        lines.append("Access-Control-Max-Age: ")
        lines.append(decimal: Int(ttl))
        lines.append("\r\n")
    }

    /// Returns the stored part of a response: the permissions. The lifetime is left out, because `appendMaxAge` computes it for each use.
    public static func kept(of response: ResponseHead) -> ResponseHead {
        var fields = Fields()
        for index in 0..<response.fields.count {
            let name = response.fields.name(at: index)
            let isKept =
                OriginGrant.isGrantField(name) || [.date, .vary, .allow].contains(response.fields.entries[index].known)
            guard isKept, !name.equalsIgnoringCase("access-control-max-age") else { continue }
            fields.append(name: Array(name).span, value: Array(response.fields.value(at: index)).span)
        }
        return ResponseHead(status: response.status, reason: response.reason, fields: fields)
    }
}

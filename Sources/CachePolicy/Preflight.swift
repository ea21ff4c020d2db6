// A browser asks by OPTIONS whether a script of one origin may send a request to another (Fetch §4.8, "CORS-preflight fetch"). What the upstream
// says to that depends on the origin, the method and the names of fields, and on nothing else; it says itself for how long it holds. So it is kept by
// these, and stands in for a failing upstream: a stored response is no use to a web app whose preflight fails.
// We differ: RFC 9110 §9.3.7 does not let responses to OPTIONS be cached. Browsers do it all the same, as Fetch has it. Not under `strict`.

import HTTPCore

public struct Preflight: Sendable {
    /// As the browser spells it.
    public let origin: [UInt8]
    let method: [UInt8]
    /// In lower case and in order.
    let fields: [[UInt8]]
    /// What else it asks for (Access-Control-Request-Private-Network), names and values in order.
    private let others: [[UInt8]]

    /// What browsers hold to be the lifetime of a response that says none, in seconds (Fetch §4.9).
    public static let unsaidLifetime: Int64 = 5
    /// Longest lifetime that is believed, in seconds: no browser keeps one for longer than a day.
    public static let longestLifetime: Int64 = 86_400
    /// More than this of origin, method and fields together is not kept: a key is compared at every look-up.
    private static let identityLimitBytes = 1 << 10

    /// nil where the request is another: a preflight has one origin and one method, and neither content nor credentials.
    /// - Parameter credentials: the fields that carry them.
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

    /// All that the response depends on beside the target, each part with its length. It stands in the key where a request's content would, and no
    /// content's part begins so.
    public var identity: [UInt8] {
        var identity = Self.beginning
        for part in [origin, method] + others + fields { CacheKey.appendPart(part, to: &identity) }
        return identity
    }

    /// The fields that a preflight asks for, in lower case; nil where one is none (it could be taken for another line), or there are too many.
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

    /// Whether this part of a key is one of a preflight.
    public static func isIdentity(_ part: [UInt8]) -> Bool { part.starts(with: beginning) }

    // MARK: The response

    /// Whether this response lets the script's request go out, as browsers see it. Another is passed on and not kept.
    public func isAllowed(by response: ResponseHead) -> Bool {
        guard response.status.isSuccessful, OriginGrant(response.fields, to: origin[...]) != nil else { return false }
        guard Self.isSimple(method) || allows(method, "access-control-allow-methods", response.fields, ignoringCase: false) else {
            return false
        }
        return fields.allSatisfy { allows($0, "access-control-allow-headers", response.fields, ignoringCase: true) }
    }

    /// Those that need no leave (Fetch §2.2.1).
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

    /// How long it holds, in seconds.
    public static func lifetime(_ response: Fields) -> Int64 {
        let lines = response.all(named: "access-control-max-age")
        guard lines.count == 1, let text = lines.first?.trimmed, !text.isEmpty else { return unsaidLifetime }
        if text.first == UInt8(ascii: "-"), text.count > 1, text.dropFirst().allSatisfy(\.isASCIIDigit) { return 0 }
        guard text.allSatisfy(\.isASCIIDigit) else { return unsaidLifetime }
        return text.count > 9 ? longestLifetime : min(longestLifetime, text.reduce(0) { $0 * 10 + Int64($1 - 0x30) })
    }

    /// How long it holds from now on. A browser would count a lifetime that it was given before from the beginning; without one it counts on five
    /// seconds, and asks again: so do those who get a stale one while the upstream fails.
    /// - Parameter ttl: seconds.
    public static func appendMaxAge(_ ttl: Int64?, to lines: inout [UInt8]) {
        guard let ttl, ttl > 0 else { return }
        lines.append("Access-Control-Max-Age: ")
        lines.append(decimal: Int(ttl))
        lines.append("\r\n")
    }

    /// What is kept of a response: what says who may do what. For how long is said anew each time, since it has been here for a while.
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

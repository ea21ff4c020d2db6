// The operator's CORS rules (Fetch §3.2), for upstreams without CORS support. Cistern answers preflights itself and replaces the upstream's
// CORS fields in every response.

import HTTPCore

public struct CrossOriginRules: Sendable, Equatable {
    /// Complete origins, compared byte by byte. `*` matches every origin except `null`, which must be listed explicitly.
    public var origins: [[UInt8]] = []
    /// Methods that scripts may use. GET, HEAD and POST never need permission.
    public var methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map { Array($0.utf8) }
    /// Names of request fields that scripts may send, in lower case. `*` allows every requested field.
    public var fields = [Array("*".utf8)]
    /// Whether requests with cookies or client certificates are allowed.
    public var allowsCredentials = false
    /// Maximum time for which browsers may cache a preflight response. Sent in whole seconds.
    public var maxAge = Duration.seconds(600)

    public init() {}

    /// True if the upstream's CORS fields are removed without replacement: no origin may read a response.
    private var isClosed = false

    /// True if the rules replace the upstream's CORS fields.
    public var isOn: Bool { isClosed || !origins.isEmpty }

    private var isForAll: Bool { origins.contains { $0.elementsEqual("*".utf8) } }

    private func names(_ origin: ArraySlice<UInt8>) -> Bool { origins.contains { $0.elementsEqual(origin) } }

    private func lets(_ origin: ArraySlice<UInt8>) -> Bool {
        names(origin) || (isForAll && !origin.elementsEqual("null".utf8))
    }

    /// Returns the request's origin; nil if the request has no Origin field or several.
    private static func origin(of head: RequestHead) -> ArraySlice<UInt8>? {
        let origins = head.fields.all(.origin)
        return origins.count == 1 ? origins.first : nil
    }

    // MARK: All responses

    /// Returns the field lines added to each response to this request.
    public func lines(for head: RequestHead) -> [UInt8] {
        var lines: [UInt8] = []
        // With a list of origins the response depends on Origin, also for a request without that field (RFC 9110 §12.5.5).
        if !isForAll || origins.count > 1 { lines.append("Vary: Origin\r\n") }
        guard let origin = Self.origin(of: head), lets(origin) else { return lines }
        lines.append("Access-Control-Allow-Origin: ")
        lines += names(origin) ? Array(origin) : Array("*".utf8)
        lines.append("\r\n")
        if allowsCredentials { lines.append("Access-Control-Allow-Credentials: true\r\n") }
        return lines
    }

    // MARK: Preflights

    /// The result of checking a preflight.
    public enum Verdict: Sendable, Equatable, CaseIterable {
        case allowed
        case originNotNamed, methodNotNamed, fieldNotNamed

        /// Message for the client; nil if the preflight is allowed.
        public var refusal: String? {
            switch self {
            case .allowed: nil
            case .originNotNamed: "The origin is none of those that cors.origins names."
            case .methodNotNamed: "The method is none of those that cors.methods names."
            case .fieldNotNamed: "A field is none of those that cors.fields names."
            }
        }
    }

    /// Checks a preflight. Returns nil if the request is not a preflight.
    public func verdict(of head: RequestHead) -> Verdict? {
        guard head.method == .options, head.contains(.origin),
            let method = head.fields.all(named: "access-control-request-method").first
        else { return nil }
        guard let origin = Self.origin(of: head), lets(origin) else { return .originNotNamed }
        guard Preflight.isSimple(method) || methods.contains(where: { $0.elementsEqual(method) }) else { return .methodNotNamed }
        let areNamed = Preflight.wantedFields(of: head.fields)?.allSatisfy { name in
            fields.contains { $0.elementsEqual("*".utf8) || $0 == name }
        }
        return areNamed == true ? .allowed : .fieldNotNamed
    }

    /// Returns the field lines of an allowed preflight's response, in addition to `lines(for:)`.
    public func permissionLines(to head: RequestHead) -> [UInt8] {
        var lines: [UInt8] = []
        func append(_ name: StaticString, _ words: [[UInt8]]) {
            guard !words.isEmpty else { return }
            lines.append(name)
            lines += words.joined(separator: Array(", ".utf8))
            lines.append("\r\n")
        }
        append("Access-Control-Allow-Methods: ", methods)
        append("Access-Control-Allow-Headers: ", Preflight.wantedFields(of: head.fields) ?? [])
        lines.append("Access-Control-Max-Age: ")
        lines.append(decimal: Int(maxAge.components.seconds))
        lines.append("\r\n")
        return lines
    }

    // MARK: Upstream responses

    /// Returns a response head without its Access-Control fields, which `lines(for:)` replaces. Access-Control-Expose-Headers is kept: the
    /// upstream decides which response fields scripts may read.
    /// - Parameter head: status line and field lines.
    public static func strip(_ head: Span<UInt8>) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(head.count)
        var start = 0
        while start < head.count {
            let end = head.first(0x0a, from: start).map { $0 + 1 } ?? head.count
            let line = head.extracting(start..<end)
            if !isReplaced(line) { out.append(copying: line) }
            start = end
        }
        return out
    }

    private static func isReplaced(_ line: Span<UInt8>) -> Bool {
        begins(line, "access-control-") && !begins(line, "access-control-expose-headers:")
    }

    private static func begins(_ line: Span<UInt8>, _ name: StaticString) -> Bool {
        line.count > name.utf8CodeUnitCount && line.extracting(..<name.utf8CodeUnitCount).equalsIgnoringCase(name)
    }
}

extension CrossOriginRules: PathRules {
    /// If two rules for one path differ, the result removes the upstream's CORS fields and permits nothing.
    public func stricter(_ other: CrossOriginRules) -> CrossOriginRules {
        guard self != other else { return self }
        var rules = CrossOriginRules()
        rules.isClosed = true
        return rules
    }
}

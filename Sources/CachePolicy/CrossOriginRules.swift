// What the operator lets scripts of other origins do (Fetch §3.2), for upstreams that say nothing of it: Cistern responds to preflights itself, and its
// word takes the place of the upstream's in every response.

import HTTPCore

public struct CrossOriginRules: Sendable, Equatable {
    /// Whole origins, compared byte by byte. `*` stands for all but `null`, which counts only where it is named.
    public var origins: [[UInt8]] = []
    /// Methods that need leave; GET, HEAD and POST never do.
    public var methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map { Array($0.utf8) }
    /// Names of fields, in lower case. `*` stands for all that are asked for.
    public var fields = [Array("*".utf8)]
    /// Whether requests with cookies and client certificates are let in.
    public var allowsCredentials = false
    /// For how long browsers may remember it, in seconds.
    public var maxAge: Int64 = 600

    public init() {}

    /// Whether the upstream's word is replaced by none: no origin may read anything.
    private var isClosed = false

    /// Whether there is anything to say.
    public var isOn: Bool { isClosed || !origins.isEmpty }

    private var isForAll: Bool { origins.contains { $0.elementsEqual("*".utf8) } }

    private func names(_ origin: ArraySlice<UInt8>) -> Bool { origins.contains { $0.elementsEqual(origin) } }

    private func lets(_ origin: ArraySlice<UInt8>) -> Bool {
        names(origin) || (isForAll && !origin.elementsEqual("null".utf8))
    }

    /// The one origin that a request says; nil where it says none, or several.
    private static func origin(of head: RequestHead) -> ArraySlice<UInt8>? {
        let origins = head.fields.all(.origin)
        return origins.count == 1 ? origins.first : nil
    }

    // MARK: All responses

    /// The lines that each response to this request has.
    public func lines(for head: RequestHead) -> [UInt8] {
        var lines: [UInt8] = []
        // With a list it depends on who asks, also where nobody does (RFC 9110 §12.5.5).
        if !isForAll || origins.count > 1 { lines.append("Vary: Origin\r\n") }
        guard let origin = Self.origin(of: head), lets(origin) else { return lines }
        lines.append("Access-Control-Allow-Origin: ")
        lines += names(origin) ? Array(origin) : Array("*".utf8)
        lines.append("\r\n")
        if allowsCredentials { lines.append("Access-Control-Allow-Credentials: true\r\n") }
        return lines
    }

    // MARK: Preflights

    /// What a preflight is told.
    public enum Verdict: Sendable, Equatable, CaseIterable {
        case allowed
        case originNotNamed, methodNotNamed, fieldNotNamed

        /// For the client; nil where it is allowed.
        public var refusal: String? {
            switch self {
            case .allowed: nil
            case .originNotNamed: "The origin is none of those that cors.origins names."
            case .methodNotNamed: "The method is none of those that cors.methods names."
            case .fieldNotNamed: "A field is none of those that cors.fields names."
            }
        }
    }

    /// nil where the request is no preflight.
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

    /// The lines that a preflight gets beside those that all have, where it is allowed.
    public func leave(to head: RequestHead) -> [UInt8] {
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
        lines.append(decimal: Int(maxAge))
        lines.append("\r\n")
        return lines
    }

    // MARK: What the upstream says

    /// A head without its Access-Control fields: ours take their place. Which of its fields scripts may read is the upstream's to say.
    /// - Parameter head: status line and field lines.
    public static func strip(_ head: UnsafeRawBufferPointer) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(head.count)
        var start = 0
        while start < head.count {
            let end = (start..<head.count).first { head[$0] == 0x0a }.map { $0 + 1 } ?? head.count
            let line = UnsafeRawBufferPointer(rebasing: head[start..<end])
            if !isReplaced(line) { out.append(contentsOf: line) }
            start = end
        }
        return out
    }

    private static func isReplaced(_ line: UnsafeRawBufferPointer) -> Bool {
        begins(line, "access-control-") && !begins(line, "access-control-expose-headers:")
    }

    private static func begins(_ line: UnsafeRawBufferPointer, _ name: String) -> Bool {
        line.count > name.utf8.count && zip(line, name.utf8).allSatisfy { $0.asciiLowercased == $1 }
    }
}

extension CrossOriginRules: PathRules {
    /// What scripts may do opens, and that the upstream's own word is replaced protects.
    public func stricter(_ other: CrossOriginRules) -> CrossOriginRules {
        guard self != other else { return self }
        var rules = CrossOriginRules()
        rules.isClosed = true
        return rules
    }
}

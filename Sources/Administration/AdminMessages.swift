// Requests to the admin interface, and its responses.

import HTTPCore
import JSON

public struct AdminRequest: Sendable {
    var method: Method
    /// Decoded segments after `/-/`.
    var segments: [String]
    /// Decoded arguments, in order.
    var arguments: [(name: String, value: String)] = []
    public var content: [UInt8] = []
    /// Permission for the status page.
    public var statusAccess = StatusAccess.numbers
    /// Whether a script of a web page may have sent the request.
    private(set) var hasOrigin = false

    /// nil if the target is not under `/-/`, or its encoding is invalid.
    public init?(_ head: RequestHead) {
        method = head.method
        hasOrigin = head.fields.contains(.origin)
        let target = head.pathAndQuery
        let question = target.firstIndex(of: UInt8(ascii: "?")) ?? target.endIndex
        let path = target[..<question]
        guard path.starts(with: Array("/-/".utf8)) else { return nil }
        var segments: [String] = []
        for segment in path.dropFirst(3).split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard let text = PercentCoding.decode(segment, plusIsSpace: false) else { return nil }
            segments.append(text)
        }
        self.segments = segments
        for argument in target[question...].dropFirst().split(separator: UInt8(ascii: "&")) {
            let equals = argument.firstIndex(of: UInt8(ascii: "=")) ?? argument.endIndex
            guard let name = PercentCoding.decode(argument[..<equals], plusIsSpace: true),
                let value = PercentCoding.decode(argument[equals...].dropFirst(), plusIsSpace: true)
            else { return nil }
            arguments.append((name, value))
        }
    }

    /// A request with the method PURGE, as other caches accept it: purges the target of the request. nil if the method is another one.
    /// - Parameter api: name of the API that serves the host and the path; nil for all.
    public init?(purging head: RequestHead, api: String?) {
        guard case .other(let name) = head.method, name.elementsEqual("PURGE".utf8) else { return nil }
        (method, segments) = (.post, ["purge"])
        arguments = [("target", String(decoding: head.pathAndQuery, as: UTF8.self))]
        if let api { arguments.append(("api", api)) }
    }

    /// Whether the request reads the status page, which needs no permission of `AdminAccess`.
    public var isForPage: Bool { segments.first == "status" && method.isRead }

    subscript(_ name: String) -> String? { arguments.first { $0.name == name }?.value }

    /// True for `name`, `name=true` and `name=1`.
    func flag(_ name: String) throws(AdminProblem) -> Bool {
        switch self[name] {
        case nil, "false"?, "0"?: return false
        case ""?, "true"?, "1"?: return true
        case let other?: throw .badRequest("\(name) must be true or false, not \"\(other)\".")
        }
    }

    func count(_ name: String, default: Int, in range: ClosedRange<Int>) throws(AdminProblem) -> Int {
        guard let text = self[name] else { return `default` }
        guard let value = Int(text), range.contains(value) else {
            throw .badRequest("\(name) must be a number from \(range.lowerBound) to \(range.upperBound), not \"\(text)\".")
        }
        return value
    }

    /// Rejects unknown and repeated arguments. A purge that ignored a misspelt `prefix` would remove other responses.
    func allow(_ names: [String]) throws(AdminProblem) {
        var seen: Set<String> = []
        for argument in arguments where !seen.insert(argument.name).inserted {
            throw .badRequest("\"\(argument.name)\" is given more than once: send one request for each value.")
        }
        for argument in arguments where !names.contains(argument.name) {
            let known = names.isEmpty ? "none" : names.joined(separator: ", ")
            throw .badRequest("\"\(argument.name)\" is not an argument of this page; known: \(known).")
        }
    }
}

/// Why a request failed; sent as problem details (RFC 9457).
public struct AdminProblem: Error, Sendable {
    let status: Status
    let sentence: String

    public init(status: Status, sentence: String) {
        self.status = status
        self.sentence = sentence
    }

    static func badRequest(_ sentence: String) -> AdminProblem { AdminProblem(status: 400, sentence: sentence) }
    public static func notFound(_ sentence: String) -> AdminProblem { AdminProblem(status: 404, sentence: sentence) }
    static func unavailable(_ sentence: String) -> AdminProblem { AdminProblem(status: 503, sentence: sentence) }
}

public struct AdminResponse: Sendable {
    var status: Status = 200
    var contentType = "application/json"
    public var content: [UInt8]
    public var fieldLines = ""

    init(_ value: JSONValue, status: Status = 200) {
        self.status = status
        content = value.document
    }

    init(content: [UInt8], contentType: String) {
        self.content = content
        self.contentType = contentType
    }

    /// Redirects to another page (RFC 9110 §15.4.4).
    public init(seeOther path: String) {
        self.init(content: [], contentType: "text/plain; charset=utf-8")
        status = 303
        fieldLines = "Location: \(path)\r\n"
    }

    public init(_ problem: AdminProblem) {
        let title = String(decoding: [UInt8](ReasonPhrase.standard(for: problem.status)), as: UTF8.self)
        self.init(
            [
                "type": "about:blank", "title": .string(title), "status": .integer(Int(problem.status.rawValue)),
                "detail": .string(problem.sentence),
            ],
            status: problem.status)
        contentType = "application/problem+json"
    }

    /// Whether the client lacks permission for the request.
    public var isRefusal: Bool { status == 401 || status == 403 }

    /// Status line and fields, without the final empty line.
    public func head(date: [UInt8]) -> [UInt8] {
        var head: [UInt8] = []
        ResponseSerializer.appendStatusLine(status, reason: [], to: &head)
        head.append("Date: ")
        head += date
        head += Array("\r\nContent-Type: \(contentType)\r\nContent-Length: \(content.count)\r\nCache-Control: no-store\r\n".utf8)
        // Prevents browsers from sniffing content types, for stored content and for texts.
        head.append("X-Content-Type-Options: nosniff\r\n")
        return head + Array(fieldLines.utf8)
    }
}

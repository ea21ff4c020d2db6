// A recorded response prepared for replay, without fields that depend on the recorded connection, time and host.

import CachePolicy
import Forwarding
import HTTPCore
import JSON

public struct ReplayResponse: Sendable {
    public let status: Status
    /// Status line and field lines, without Date, Content-Length and the empty line.
    public let head: [UInt8]
    public private(set) var content: [UInt8]
    /// Value of Content-Length; nil if absent or invalid.
    public let recordedLength: Int?
    /// Recorded duration in milliseconds.
    public let duration: Int64
    /// Values that the response repeats from its request.
    private let echoes: [ReplayEcho]

    /// - Parameters:
    ///   - origins: recorded origins with their base paths. Redirects to them become relative.
    ///   - now: time of the replay, in seconds since 1970.
    ///   - shift: moves the dates of the response; nil to keep them.
    ///   - echoed: values of the recorded request (`ReplayRules.echoed`).
    public init(
        _ exchange: ArchivedExchange, origins: [ArchiveOrigin], now: Int64, _ rules: ReplayRules = ReplayRules(), shift: DateShift? = nil,
        echoed: [[UInt8]?] = []
    ) {
        var fields = exchange.response.fields.removingHopByHop()
        recordedLength = fields.first(.contentLength).flatMap { Int(String(decoding: $0, as: UTF8.self)) }.flatMap { $0 >= 0 ? $0 : nil }
        // The replay generates the response anew: it gets a current Date, no Age, and no Cistern-Stale.
        for field in [KnownField.contentLength, .date, .age, .cisternStale] { fields.remove(field) }
        if exchange.isDecoded { fields.remove(.contentEncoding) }
        for field in [KnownField.location, .contentLocation] {
            guard let value = fields.first(field) else { continue }
            for origin in origins {
                guard let path = LocationRewriting.relative(value, to: origin.origin, basePath: origin.basePath) else { continue }
                fields.set(field, path)
                break
            }
        }
        let cookies = fields.all(.setCookie).map { Array($0) }
        fields.remove(.setCookie)
        let recordedAt = (exchange.started ?? now * 1000) / 1000
        for cookie in cookies { fields.append(.setCookie, Self.cookie(cookie, recordedAt: recordedAt, now: now)) }
        if let shift { fields = shift.move(fields) }
        var content = exchange.content
        var echoes: [ReplayEcho] = []
        let isAdapted = (shift != nil || !rules.echoes.isEmpty) && exchange.response.status != 206
        if isAdapted, ReplayRules.isJSON(content, fields) {
            echoes = ReplayEcho.all(in: content, rules.echoes, echoed)
            if let shift { (content, echoes) = shift.move(content: content, epochs: rules.epochs, echoes) }
            if content != exchange.content || !echoes.isEmpty { Self.noteChange(in: &fields) }
        }
        var head: [UInt8] = []
        ResponseSerializer.append(ResponseHead(status: exchange.response.status, fields: fields), to: &head)
        (status, self.head, self.content, self.echoes) = (exchange.response.status, head, content, echoes)
        duration = exchange.duration
    }

    /// Removes digests of the former content (RFC 9530), and makes the tag weak, because the content is equivalent, not identical.
    private static func noteChange(in fields: inout Fields) {
        fields.remove(named: ["content-digest", "repr-digest", "digest", "content-md5"])
        guard let tag = fields.first(.etag), tag.first == 0x22 else { return }
        fields.set(.etag, Array("W/".utf8) + tag)
    }

    /// Returns the response with the request's values in place of the recorded ones.
    public func echoing(_ request: ReplayRequest) -> ReplayResponse {
        guard !echoes.isEmpty else { return self }
        var out: [UInt8] = []
        var position = 0
        for echo in echoes {
            guard let value = request.echoed[echo.source] else { continue }
            out += content[position..<echo.range.lowerBound] + value
            position = echo.range.upperBound
        }
        var response = self
        response.content = out + content[position...]
        return response
    }

    /// Adapts a cookie to the replay (RFC 6265 §4.1.2). Removes Domain, which clients would reject from another host. Removes Expires
    /// unless the cookie was expired when it was recorded.
    static func cookie(_ value: [UInt8], recordedAt: Int64, now: Int64) -> [UInt8] {
        let kept = value.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).enumerated().filter { index, attribute in
            guard index > 0, let equals = attribute.firstIndex(of: UInt8(ascii: "=")) else { return true }
            let name = attribute[..<equals].trimmed
            if name.equalsIgnoringCase("domain") { return false }
            guard name.equalsIgnoringCase("expires"), let time = HTTPDate.parse(attribute[(equals + 1)...].trimmed, now: now) else {
                return true
            }
            return time <= recordedAt
        }
        return Array(kept.map(\.element).joined(separator: [UInt8(ascii: ";")]))
    }
}

/// An origin of recorded requests: scheme and authority in lower case, and the base path of all targets.
public struct ArchiveOrigin: Sendable, Hashable {
    public let origin: [UInt8]
    public let basePath: [UInt8]

    /// nil if the text is not an http or https URL.
    public init?(_ url: String) {
        guard let (origin, rest) = Self.split(url) else { return nil }
        var path = rest.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        while path.last == UInt8(ascii: "/") { path.removeLast() }
        (self.origin, basePath) = (origin, Array(path))
    }

    /// Path and query of a URL of this origin, as a client sends them to Cistern; nil for URLs outside it.
    public func target(of url: String) -> [UInt8]? {
        guard let (origin, rest) = Self.split(url), origin == self.origin, rest.starts(with: basePath) else { return nil }
        var target = Array(rest.dropFirst(basePath.count).prefix { $0 != UInt8(ascii: "#") })
        if target.isEmpty || target.first == UInt8(ascii: "?") { target.insert(UInt8(ascii: "/"), at: 0) }
        return target.first == UInt8(ascii: "/") ? target : nil
    }

    /// Whether the target has no byte that would end the request line or a part of it.
    public static func canBeSent(_ target: [UInt8]) -> Bool { target.allSatisfy { $0 > 0x20 && $0 != 0x7f } }

    /// Origin of a recorded URL, with an empty base path; nil if it is not an http or https URL.
    public init?(ofRecorded url: String) {
        guard let (origin, _) = Self.split(url) else { return nil }
        (self.origin, basePath) = (origin, [])
    }

    private static func split(_ url: String) -> (origin: [UInt8], rest: ArraySlice<UInt8>)? {
        let bytes = Array(url.utf8)
        let scheme = ["http://", "https://"].first { bytes.prefix($0.utf8.count).map(\.asciiLowercased).elementsEqual($0.utf8) }
        guard let scheme else { return nil }
        let rest = bytes[scheme.utf8.count...]
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? rest.endIndex
        guard end > rest.startIndex else { return nil }
        return (bytes[..<end].map(\.asciiLowercased), rest[end...])
    }
}

extension ArchiveOrigin: CustomStringConvertible {
    public var description: String { String(decoding: origin + basePath, as: UTF8.self) }
}

// Client of the admin interface: one blocking request per connection.

import Glibc
import HTTPCore
import JSON

/// Why a command failed, as a sentence for the user.
struct AdminFailure: Error, CustomStringConvertible {
    let description: String
    /// Whether the admin interface responded that the requested item does not exist.
    let isNotFound: Bool

    init(_ description: String, isNotFound: Bool = false) {
        self.description = description
        self.isNotFound = isNotFound
    }
}

struct AdminClient: Sendable {
    let address: CommandTarget
    let token: [UInt8]?
    /// Appended to the message if nothing responds at the address.
    let question: String

    /// Timeout for receiving data. A scan of a large store takes time.
    private static let patienceSeconds = 120

    /// Returns the content of a successful response.
    /// - Parameters:
    ///   - path: follows `/-/`, with encoded segments.
    ///   - arguments: those with nil are omitted.
    ///   - patienceSeconds: timeout for receiving data; nil for the usual one.
    func request(
        _ method: String, _ path: String, _ arguments: [(String, String?)] = [], content: [UInt8] = [], patienceSeconds: Int? = nil
    ) throws -> [UInt8] {
        let query = arguments.compactMap { name, value in value.map { "\(name)=\(PercentCoding.encode($0))" } }.joined(separator: "&")
        var head = "\(method) /-/\(path)\(query.isEmpty ? "" : "?" + query) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        if let token { head += "Authorization: Bearer \(String(decoding: token, as: UTF8.self))\r\n" }
        if !content.isEmpty { head += "Content-Length: \(content.count)\r\n" }
        let response = try exchange(Array((head + "\r\n").utf8) + content, patienceSeconds ?? Self.patienceSeconds)
        guard let end = response.firstRange(of: Array("\r\n\r\n".utf8)), response.count > 12,
            let status = Int(String(decoding: response[9..<12], as: UTF8.self))
        else { throw AdminFailure("\(address) did not send a valid HTTP response: check that the address is Cistern's admin interface") }
        let body = Array(response[end.upperBound...])
        guard body.count >= Self.contentLength(response[..<end.lowerBound]) else {
            throw AdminFailure("\(address) closed the connection before the end of a response")
        }
        guard status == 200 || status == 202 else {
            let detail = JSONValue(body)?["detail"]?.string
            throw AdminFailure(
                detail ?? "\(address) returned \(status): check that it is the admin interface",
                isNotFound: status == 404 && detail != nil)
        }
        return body
    }

    /// Value of Content-Length; 0 if absent or invalid.
    private static func contentLength(_ head: ArraySlice<UInt8>) -> Int {
        let name = "content-length:"
        let line = String(decoding: head, as: UTF8.self).split(separator: "\r\n").first { $0.lowercased().hasPrefix(name) }
        return line.flatMap { Int($0.dropFirst(name.count).drop(while: \.isWhitespace)) } ?? 0
    }

    /// Returns the result of a request; nil if the requested item does not exist any more.
    func unlessRemoved<Value>(_ request: (AdminClient) throws -> Value) throws -> Value? {
        do {
            return try request(self)
        } catch let failure as AdminFailure where failure.isNotFound {
            return nil
        }
    }

    /// Sends a request and parses its response as JSON.
    func value(
        _ method: String, _ path: String, _ arguments: [(String, String?)] = [], content: [UInt8] = [], patienceSeconds: Int? = nil
    ) throws -> JSONValue {
        guard let value = JSONValue(try request(method, path, arguments, content: content, patienceSeconds: patienceSeconds)) else {
            throw AdminFailure("\(address) returned a response that is not JSON: check that it is the admin interface")
        }
        return value
    }

    private func exchange(_ bytes: [UInt8], _ patienceSeconds: Int) throws -> [UInt8] {
        do throws(AdminFailure) {
            return try address.exchange(bytes, patienceSeconds: patienceSeconds)
        } catch {
            throw AdminFailure("no Cistern responds on \(address) (\(error)): check that it is running, and that \(question)")
        }
    }
}

// Client of the admin interface: one blocking request per connection.

import Glibc
import HTTPCore
import JSON

/// Why a command failed, as a sentence for the user.
struct AdminFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
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
        guard status == 200 || status == 202 else {
            throw AdminFailure(JSONValue(body)?["detail"]?.string ?? "\(address) returned \(status): check that it is the admin interface")
        }
        return body
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

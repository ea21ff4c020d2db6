// The client of the demo's examples: sends requests, and prints each with its response.

import Downstream
import JSON

struct DemoClient {
    let address: ListenAddress

    private static let patienceSeconds = 10
    /// Lower-case names of the printed response fields.
    private static let shown: Set<String> = [
        "age", "cache-status", "content-type", "access-control-allow-origin", "access-control-allow-methods",
        "access-control-allow-headers",
    ]

    static func say(_ text: String) { StandardOutput.write("\n# \(text)\n") }

    /// Sends a request, and prints it with its response.
    /// - Parameters:
    ///   - note: what the printed request shows instead of its fields.
    ///   - form: content of the request.
    /// - Returns: the response's content.
    @discardableResult
    func send(
        _ method: String, _ target: String, _ fields: [(String, String)] = [], note: String = "", form: String = ""
    ) throws(AdminFailure) -> [UInt8] {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: \(address)\r\nConnection: close\r\n"
        for (name, value) in fields { head += "\(name): \(value)\r\n" }
        if !form.isEmpty { head += "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n" }
        StandardOutput.write("> \(method) \(target)\(form.isEmpty ? "" : " \(form)")\(note.isEmpty ? "" : "   (\(note))")\n")
        let response = try CommandTarget.clear(address).exchange(
            Array((head + "\r\n" + form).utf8), patienceSeconds: Self.patienceSeconds)
        guard let end = response.firstRange(of: Array("\r\n\r\n".utf8)) else { throw AdminFailure("\(address) sent no valid response") }
        let lines = String(decoding: response[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
        for (index, line) in lines.enumerated() where index == 0 || Self.shown.contains(line.prefix { $0 != ":" }.lowercased()) {
            StandardOutput.write("< \(Printable.text(String(line)))\n")
        }
        let content = Array(response[end.upperBound...])
        let text = String(decoding: content.reversed().drop { $0 == 0x0a }.reversed(), as: UTF8.self)
        if !text.isEmpty { StandardOutput.write("\(Printable.text(text))\n") }
        return content
    }

    /// The member `access_token` of a login's response, which the sample API sends without escapes.
    static func token(in content: [UInt8]) throws(AdminFailure) -> String {
        guard let token = JSONValue(content)?["access_token"]?.string else { throw AdminFailure("the login returned no token") }
        return token
    }
}

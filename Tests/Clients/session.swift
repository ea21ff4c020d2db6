// URLSession as an app uses it: makes the given requests in order, and prints status, Cache-Status and content of each.
//
//     session BASE REQUEST...        such as "GET /users" or "POST /users|Accept: application/json|{"a":1}"; content comes last

import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

let base = CommandLine.arguments[1]
let session = URLSession(configuration: .ephemeral)
for argument in CommandLine.arguments.dropFirst(2) {
    let parts = argument.split(separator: "|").map(String.init)
    let line = parts[0].split(separator: " ").map(String.init)
    var request = URLRequest(url: URL(string: base + line[1])!)
    request.cachePolicy = .reloadIgnoringLocalCacheData
    request.httpMethod = line[0]
    for part in parts.dropFirst() {
        if part.hasPrefix("{") {
            request.httpBody = Data(part.utf8)
        } else if let colon = part.firstIndex(of: ":") {
            request.setValue(part[colon...].dropFirst(2).description, forHTTPHeaderField: String(part[..<colon]))
        }
    }
    do {
        let (data, response) = try await session.data(for: request)
        let http = response as! HTTPURLResponse
        // One line per response.
        let content = String(decoding: data, as: UTF8.self).replacing("\n", with: " ")
        print(http.statusCode, http.value(forHTTPHeaderField: "Cache-Status") ?? "-", content, separator: "\t")
    } catch {
        print("error", "-", error.localizedDescription, separator: "\t")
    }
}

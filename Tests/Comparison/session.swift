// URLSession as an app uses it: asks for each target given, one after the other, and prints status, outcome and content of each.
//
//     session BASE TARGET...        a target may begin with a method and a colon: POST:/users

import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

let base = CommandLine.arguments[1]
let session = URLSession(configuration: .ephemeral)
for argument in CommandLine.arguments.dropFirst(2) {
    let parts = argument.split(separator: ":", maxSplits: 1)
    var request = URLRequest(url: URL(string: base + parts[parts.count - 1])!)
    request.cachePolicy = .reloadIgnoringLocalCacheData
    if parts.count == 2 {
        request.httpMethod = String(parts[0])
        request.httpBody = Data("{\"a\":1}".utf8)
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
    }
    do {
        let (data, response) = try await session.data(for: request)
        let answer = response as! HTTPURLResponse
        print(
            answer.statusCode, answer.value(forHTTPHeaderField: "Cache-Status") ?? "-", String(decoding: data, as: UTF8.self),
            separator: "\t")
    } catch {
        print("error", "-", error.localizedDescription, separator: "\t")
    }
}

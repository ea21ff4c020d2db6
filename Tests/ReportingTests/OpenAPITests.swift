// Tests that the administration interface has every path and method of its OpenAPI document. Responses match their schemas, including all
// names and types of members.

import Administration
import JSON
import ReverseProxy
import TestSupport
import Testing

@Suite("The OpenAPI document", .play)
struct OpenAPITests {
    /// One successful call for each operation.
    private static let calls: [String: (method: String, target: String, content: String?)] = [
        "openapi": ("GET", "/-/openapi.json", nil), "listEntries": ("GET", "/-/entries?limit=1", nil),
        "showEntry": ("GET", "/-/entries/{id}", nil), "entryContent": ("GET", "/-/entries/{id}/content", nil),
        "advice": ("GET", "/-/advice?freshness=45", nil), "listWhy": ("GET", "/-/why", nil), "showWhy": ("GET", "/-/why/0-1", nil),
        "showMode": ("GET", "/-/mode", nil),
        "setMode": ("PUT", "/-/mode?mode=replay&prefix=/a", nil), "removeMode": ("DELETE", "/-/mode?prefix=/a", nil),
        "importEntry": ("POST", "/-/entries", "{}"), "upstream": ("GET", "/-/upstream", nil),
        "resetUpstream": ("POST", "/-/upstream/reset?scope=pause", nil), "stats": ("GET", "/-/stats", nil),
        "share": ("GET", "/-/share", nil),
        "status": ("GET", "/-/status", nil), "statusExchanges": ("GET", "/-/status/exchanges", nil),
        "reload": ("POST", "/-/reload", nil),
        "purge": ("POST", "/-/purge?prefix=/none", nil), "listFaults": ("GET", "/-/faults", nil),
        "addFault": ("POST", "/-/faults?path=/none&effect=refuse", nil), "removeFaults": ("DELETE", "/-/faults", nil),
        "removeFault": ("DELETE", "/-/faults/{id}", nil),
    ]

    @Test("the document describes exactly the existing operations and their responses")
    func operations() throws {
        let play = try ProxyPlay(
            ScriptedOrigin { _ in [.json("{\"a\":1}", ["Cache-Control: max-age=60", "Vary: Accept", "Cache-Tag: x"])] }, fleet: .ofNobody
        ) {
            $0.admin.allowsFaults = true
        }
        for target in ["/a", "/b", "/a"] { _ = try play.get(target, [("Cookie", "a=b")]) }
        play.origin.down()
        _ = try play.get("/c")
        let document = try #require(JSONValue(try play.admin("GET", "/-/openapi.json").content))
        let list = try #require(JSONValue(try play.admin("GET", "/-/entries").content))
        let id = try #require(list["entries"]?.array?.first?["id"]?.string)
        var called: Set<String> = []
        for path in document["paths"]?.members ?? [] {
            for operation in path.value.members ?? [] {
                let name = try #require(operation.value["operationId"]?.string)
                let call = try #require(Self.calls[name], "no call is written for \(name)")
                called.insert(name)
                #expect(call.method == operation.name.uppercased())
                let place = path.name.hasPrefix("/-/why/") ? "0-1" : "{id}"
                #expect(
                    call.target.prefix { $0 != "?" }
                        == path.name.split(separator: "{id}", omittingEmptySubsequences: false).joined(separator: place))
                let target = call.target.split(separator: "{id}", omittingEmptySubsequences: false).joined(separator: id)
                let answer = try play.admin(call.method, target, content: call.content)
                check(answer, of: operation.value, named: name, document)
                let wrong = try play.admin(call.method, target.prefix { $0 != "?" } + "?nonsense=1", content: call.content)
                check(wrong, of: operation.value, named: name + " with a wrong argument", document)
                #expect(name == "openapi" || wrong.status == 400)
            }
            #expect(try play.admin("BREW", path.name).status == 405)
        }
        #expect(called == Set(Self.calls.keys))
    }

    private func check(_ answer: TestResponse, of operation: JSONValue, named name: String, _ document: JSONValue) {
        guard let described = operation["responses"]?[String(answer.status)] else {
            Issue.record("\(name) answers with \(answer.status), which is not documented")
            return
        }
        guard let content = described["content"]?.members?.first else { return #expect(answer.content.isEmpty) }
        #expect(answer["Content-Type"] == content.name)
        guard content.name.hasSuffix("json"), let schema = content.value["schema"] else { return }
        guard let value = JSONValue(answer.content) else {
            Issue.record("\(name) answers with no JSON")
            return
        }
        for problem in Schema(document: document).problems(of: value, against: schema, at: name) { Issue.record("\(problem)") }
    }
}

/// The part of JSON Schema that the document uses. Members without a schema are problems too, because the document must be complete.
private struct Schema {
    let document: JSONValue

    func problems(of value: JSONValue, against schema: JSONValue, at place: String) -> [String] {
        if let reference = schema["$ref"]?.string {
            let name = reference.split(separator: "/").last.map(String.init) ?? ""
            guard let named = document["components"]?["schemas"]?[name] else { return ["\(place): \(reference) leads nowhere"] }
            return problems(of: value, against: named, at: place)
        }
        let types = schema["type"]?.array?.compactMap(\.string) ?? schema["type"]?.string.map { [$0] } ?? []
        guard types.contains(where: { fits(value, $0) }) else { return ["\(place): \(value) is not of type \(types)"] }
        if let words = schema["enum"]?.array, !words.contains(value), value != .null { return ["\(place): \(value) is none of \(words)"] }
        if let items = value.array, let schema = schema["items"] {
            return items.enumerated().flatMap { problems(of: $1, against: schema, at: "\(place)[\($0)]") }
        }
        guard let members = value.members else { return [] }
        var found: [String] = []
        let required = schema["required"]?.array?.compactMap(\.string) ?? []
        for name in required where value[name] == nil { found.append("\(place) lacks \(name)") }
        for member in members {
            if let schema = schema["properties"]?[member.name] ?? schema["additionalProperties"] {
                found += problems(of: member.value, against: schema, at: "\(place).\(member.name)")
            } else if schema["properties"] != nil {
                found.append("\(place).\(member.name) is not documented")
            }
        }
        return found
    }

    private func fits(_ value: JSONValue, _ type: String) -> Bool {
        switch (value, type) {
        case (.null, "null"), (.bool, "boolean"), (.string, "string"), (.array, "array"), (.object, "object"), (.integer, "integer"),
            (.integer, "number"), (.number, "number"):
            true
        default: false
        }
    }
}

// Tests that GraphQL mutations are never stored, in any form of a POST.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("GraphQL in requests")
struct GraphQLTests {
    @Test(
        "mutations and subscriptions are detected in a document",
        arguments: [
            ("{ a }", false), ("query Q { mutation }", false), ("mutation { a }", true), ("subscription S { a }", true),
            ("query A { a } mutation B { b }", true), ("fragment F on T { a } mutation M($x: I = 1) @d { b }", true),
            ("# mutation { a }\n{ a }", false), ("# x\nmutation { a }", true), ("#x\rmutation { a }", true),
            ("{ a(s: \"mutation {\") }", false), ("{ a(s: \"\\\"\") } mutation { b }", true),
            // Quotes within block strings do not end them.
            ("{ a(s: \"\"\"x \" y\"\"\") } mutation { b }", true), ("\"\"\" a \" b \"\"\" mutation { b }", true),
            ("{ a(s: \"\"\"x \\\"\"\" } mutation { \"\"\") }", false), ("{ a(s: \"\") } mutation { b }", true),
            ("{ a(s: \"\"\"\\\"\"\") } mutation { b }", false), ("\"a mutation {\" { b }", false),
            ("{ a } } mutation { b }", true), ("mutations { a }", false), ("mutation rates of genes", false), ("", false), ("\"", false),
            ("\"\"\"", false),
        ])
    func documents(document: String, changes: Bool) {
        #expect(GraphQLDocument.changesSomething(Array(document.utf8).span) == changes)
    }

    @Test(
        "queries are detected in a document",
        arguments: [
            ("{ a }", true), ("query Q { a }", true), ("query ($a: I) { a }", true), ("fragment F on T { a } query { a }", true),
            ("fragment F on T { a }", false), ("", false), ("3f2a", false), ("query", false), ("# { a }", false), ("\"{ a }\"", false),
        ])
    func queries(document: String, reads: Bool) {
        #expect(GraphQLDocument.operations(in: Array(document.utf8).span) == .init(reads: reads, changes: false))
    }

    private func isKept(_ method: HTTPCore.Method, _ lines: String, _ content: String, target: String = "/graphql") -> Bool {
        RequestContent.identity(
            method: method, target: Array(target.utf8)[...], fields: fields(lines), content: Array(content.utf8).span, rules: nil) != nil
    }

    @Test(
        "a query of a target is a GraphQL request in every spelling with its cache key",
        arguments: [
            ("/g?query=a", true), ("/g?%71uery=a", true), ("/g?x=1&que%72y=a", true), ("/g?Query=a", true), ("/g?document%49d=1", true),
            ("/g?doc%5Fid=1", true), ("/g?extensions", true), ("/query?a=query", false), ("/g?%2571uery=a", false), ("/g?q=1", false),
            ("/g?%ff=1", false), ("/g", false),
        ])
    func targets(target: String, isAsked: Bool) { #expect(GraphQLResponse.isAsked(for: Array(target.utf8)[...]) == isAsked) }

    @Test(
        "JSON content with parameters of its type has its own key, except for charset=utf-8",
        arguments: [
            ("application/json; charset=utf-8", true), ("Application/JSON;charset=\"UTF-8\"", true), ("application/json", true),
            ("application/json; charset=iso-8859-1", false), ("application/json; profile=a", false),
            ("application/json, text/xml", false), ("application/json; charset=utf-8; charset=utf-16", false),
        ])
    func parameters(type: String, isPlain: Bool) {
        func identity(_ type: String) -> [UInt8] {
            RequestContent.said(method: .query, fields: fields("Content-Type: \(type)"), content: Array("{ }".utf8).span, rules: nil)
        }
        #expect((identity(type) == identity("application/json")) == isPlain)
    }

    @Test(
        "JSON content in another spelling has one key, except for numbers",
        arguments: [("{\"a\": [7]}", true), ("{\"\\u0061\":[7]}", true)]
            + ["7.0", "7e0", "70e-1", "8"].map { ("{\"a\":[\($0)]}", false) })
    func numbers(content: String, isSame: Bool) {
        func identity(_ content: String) -> [UInt8] {
            RequestContent.said(
                method: .post, fields: fields("Content-Type: application/json"), content: Array(content.utf8).span, rules: nil)
        }
        #expect((identity(content) == identity("{\"a\":[7]}")) == isSame)
    }

    @Test(
        "a persisted document is stored only if the request also has the query text",
        arguments: [
            ("{\"documentId\":\"a\",\"variables\":{}}", false), ("{\"id\":\"a\"}", false), ("{\"doc_id\":7}", false),
            ("{\"queryId\":\"a\"}", false), ("{\"operationName\":\"Pay\"}", false), ("{\"variables\":{}}", false),
            ("{\"DocumentID\":\"a\"}", false), ("[{\"query\":\"{a}\"},{\"id\":\"a\"}]", false),
            ("{\"query\":\"\",\"id\":\"a\"}", false), ("{\"query\":null,\"id\":\"a\"}", false),
            ("{\"query\":{\"a\":1},\"id\":\"a\"}", false),
            ("{\"query\":\"{a}\",\"query\":\"\",\"id\":\"a\"}", false), ("{\"query\":\"{a}\",\"Query\":\"mutation {a}\"}", false),
            ("{\"extensions\":{\"PersistedQuery\":{}}}", false),
            ("{\"query\":\"{a}\",\"id\":\"a\"}", true),
            ("{\"query\":\"query A {a}\",\"operationName\":\"A\",\"variables\":{\"id\":1}}", true),
            ("{\"query\":\"{a}\",\"extensions\":{\"persistedQuery\":{\"sha256Hash\":\"b\"}}}", true),
            ("{\"filter\":{\"id\":1}}", true), ("{\"query\":{\"match\":{}}}", true), ("{\"query\":\"shoes\",\"page\":1}", true),
        ])
    func named(content: String, expected: Bool) {
        #expect(isKept(.post, "Content-Type: application/json", content) == expected, "\(content)")
    }

    @Test(
        "document identifiers are also found in forms, multipart content and the target",
        arguments: [
            ("application/x-www-form-urlencoded", "doc_id=1&variables=%7B%7D", "/g", false),
            ("application/x-www-form-urlencoded", "q=1&id=2", "/g", false),
            ("application/x-www-form-urlencoded", "query=%7Ba%7D&variables=%7B%7D", "/g", true),
            ("application/x-www-form-urlencoded", "x=1;query=mutation%7Ba%7D", "/g", false),
            ("application/x-www-form-urlencoded", "extensions=%7B%22persistedQuery%22%3A1%7D", "/g", false),
            ("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\n1\r\n--b--\r\n", "/g", false),
            ("application/json", "{}", "/g", true), ("application/json", "{}", "/g?documentId=a", false),
            ("application/json", "{}", "/g?x=1&query=mutation%7Ba%7D", false), ("application/json", "{}", "/g?query=%7Ba%7D&id=1", true),
            ("application/json", "{}", "/g?extensions=%7B%22persistedQuery%22%3A%7B%7D%7D", false),
        ])
    func elsewhere(type: String, content: String, target: String, expected: Bool) {
        #expect(isKept(.post, "Content-Type: \(type)", content, target: target) == expected, "\(target) \(content)")
    }

    @Test(
        "only requests without mutations are stored",
        arguments: [
            ("application/json", "{\"query\":\"{a}\"}", true), ("application/json", "{\"query\":\"mutation {a}\"}", false),
            ("application/json", "{\"qu\\u0065ry\":\"mut\\u0061tion {a}\"}", false),
            ("application/json", "[{\"query\":\"{a}\"},{\"query\":\"mutation {a}\"}]", false),
            ("application/json", "{\"query\":\"{a}\",\"query\":\"mutation {a}\"}", false),
            ("application/json", "{\"query\":\"mutation {a}\",}", false), ("application/json", "", false),
            ("application/json", "{\"extensions\":{\"persistedQuery\":{\"version\":1}}}", false),
            ("application/json", "{\"query\":\"{a}\",\"extensions\":{\"persistedQuery\":{\"version\":1}}}", true),
            ("application/json", "{\"query\":\"mutation rates\"}", true), ("application/json", "[1,{\"query\":2}]", true),
            ("application/graphql", "mutation {a}", false), ("application/graphql", "{a}", true),
            ("application/graphql+json", "{\"query\":\"mutation {a}\"}", false),
            ("application/x-www-form-urlencoded", "x=1&query=mutation+%7Ba%7D", false),
            ("application/x-www-form-urlencoded", "query=%7Ba%7D", true), ("application/x-www-form-urlencoded", "q=mutation+%7Ba%7D", true),
            ("application/x-www-form-urlencoded", "operations=%7B%22query%22%3A%22mutation+%7Ba%7D%22%7D", false),
            (
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n{\"query\":\"mutation ($f: F!) {a}\"}\r\n--b--\r\n",
                false
            ),
            (
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nmutation rates\r\n--b--\r\n", true
            ),
            ("text/plain", "{\"query\":\"mutation {a}\"}", false), ("text/plain", "any words", true),
        ])
    func requests(type: String, content: String, expected: Bool) {
        #expect(isKept(.post, "Content-Type: \(type)", content) == expected)
    }

    @Test("POST content that is encoded or has no type is examined as well; QUERY is safe")
    func unreadable() {
        let change = "{\"query\":\"mutation {a}\"}"
        #expect(!isKept(.post, "X: 1", change) && isKept(.post, "X: 1", "{}"))
        #expect(!isKept(.post, "Content-Type: a/b\nContent-Encoding: gzip", "x"))
        #expect(isKept(.query, "Content-Type: a/b\nContent-Encoding: gzip", "x"))
        #expect(isKept(.query, "Content-Type: application/json", "{") && !isKept(.query, "Content-Type: application/json", change))
    }

    @Test("long documents without braces and deeply nested batches are examined in one pass")
    func long() {
        let words = String(repeating: "mutation ", count: 100_000)
        #expect(isKept(.post, "Content-Type: text/plain", words))
        #expect(!isKept(.post, "Content-Type: text/plain", words + "{ a }"))
        let batch = "[" + String(repeating: "[{\"query\":\"{a}\",\"variables\":{\"query\":\"mutation {a}\"}}],", count: 10_000)
        #expect(isKept(.post, "Content-Type: application/json", batch + "1]"))
        #expect(!isKept(.post, "Content-Type: application/json", batch + "{\"query\":\"mutation {a}\"}]"))
    }
}

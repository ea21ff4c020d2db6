// GraphQL mutations are detected alike in a document, in JSON and in a form, whatever else the content has.

import HTTPCore
import JSON

@testable import CachePolicy

enum GraphQLProperty {
    private static let digits = Array("0123456789abcdef".utf8)

    static func check(_ bytes: [UInt8]) throws(Violation) {
        let changes = GraphQLDocument.changesSomething(bytes.span)
        for prefix in [" \n", "# mutation {\n", "query a { b }\n", "\"mutation {\" "] {
            let found = GraphQLDocument.changesSomething((Array(prefix.utf8) + bytes).span)
            try expect(found == changes, "behind \(prefix) it is \(found), alone \(changes)")
        }
        for word in ["mutation{a}\n", "subscription a($b:C=\"}\"){d}\n"] {
            try expect(GraphQLDocument.changesSomething((Array(word.utf8) + bytes).span), "\(word) is overlooked")
        }
        if let text = String(validating: bytes, as: UTF8.self) {
            let json = JSONValue.object([.init("query", .string(text))])
            try expect(GraphQLRequest.changesSomething(json: json.serialized().span) == changes, "the result differs in JSON")
            let batch = JSONValue.array([json, .null])
            try expect(GraphQLRequest.changesSomething(json: batch.serialized().span) == changes, "the result differs in a batch")
            var form = Array("a=b&query=".utf8)
            for byte in bytes { form += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
            try expect(GraphQLRequest.changesSomething(form: form) == changes, "the result differs in a form")
        }
        try checkIdentity(bytes)
    }

    /// Any content may have any type.
    private static func checkIdentity(_ bytes: [UInt8]) throws(Violation) {
        for type in ["application/json", "application/graphql", "application/x-www-form-urlencoded", "text/plain", "multipart/mixed; a=b"] {
            var fields = Fields()
            fields.append(.contentType, type)
            let identity = RequestContent.identity(method: .post, fields: fields, content: bytes.span, rules: nil)
            let again = RequestContent.identity(method: .post, fields: fields, content: bytes.span, rules: nil)
            try expect(identity == again, "the same content of \(type) has two identities")
        }
    }
}

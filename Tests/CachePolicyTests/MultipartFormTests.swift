// Tests of multipart forms: their parts become arguments of the cache key only if the form is unambiguous.

import HTTPCore
import Testing

@testable import CachePolicy

private func identity(_ content: String, _ type: String = "multipart/form-data; boundary=b", _ rules: ArgumentRules? = nil) -> [UInt8]? {
    var fields = Fields()
    fields.append(.contentType, type)
    return RequestContent.identity(method: .post, fields: fields, content: Array(content.utf8).span, rules: rules)
}

private func part(_ name: String, _ value: String, _ more: String = "", fields: String = "", boundary: String = "b") -> String {
    "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(name)\"\(more)\r\n\(fields)\r\n\(value)\r\n"
}

@Suite("Multipart form content (RFC 7578)")
struct MultipartFormTests {
    @Test("boundary, part order, case of field names and a final line break make no difference")
    func same() {
        let first = part("x", "1") + part("y", "2") + "--b--\r\n"
        let wanted = identity(first)
        #expect(identity(part("y", "2") + part("x", "1") + "--b--") == wanted)
        let other = part("x", "1", boundary: "other'") + part("y", "2", boundary: "other'") + "--other'--\r\n"
        #expect(identity(other, "Multipart/Form-Data;Boundary=\"other'\"") == wanted)
        #expect(identity(first.replacing("Content-Disposition: form-data", with: "content-disposition:FORM-DATA")) == wanted)
        #expect(identity("--b--\r\n") == identity("--c--", "multipart/form-data; boundary=c"))
    }

    @Test(
        "different parts have different identities",
        arguments: [
            (part("x", "1"), part("x", "2")), (part("x", "1"), part("y", "1")),
            (part("x", "1") + part("x", "2"), part("x", "2") + part("x", "1")),
            (part("x[][a]", "1") + part("x[][b]", "2"), part("x[][b]", "2") + part("x[][a]", "1")),
            (part("f", "1"), part("f", "1", "; filename=\"a\"")), (part("f", "1", "; filename=\"b\""), part("f", "1", "; filename=\"a\"")),
            (part("f", "1", "; filename=\"\""), part("f", "1")),
            (part("f", "1", fields: "Content-Type: text/plain\r\n"), part("f", "1", fields: "Content-Type: image/png\r\n")),
            (part("f", "1", fields: "Content-Type: text/plain\r\n"), part("f", "1")), (part("x", "a\r\nb"), part("x", "a\nb")),
            (part("x", ""), ""), (part("x", "1\r\n"), part("x", "1")), (part("x", "1"), part("X", "1")),
        ])
    func different(left: String, right: String) {
        #expect(identity(left + "--b--\r\n") != identity(right + "--b--\r\n"))
    }

    @Test("argument rules of the route also apply to part names")
    func rules() {
        var rules = ArgumentRules()
        rules.ignore = [ArgumentPattern("trace*")]
        rules.ignoresCase = true
        rules.sorts = false
        let type = "multipart/form-data; boundary=b"
        let wanted = identity(part("x", "a") + part("y", "b") + "--b--", type, rules)
        #expect(identity(part("X", "A") + part("Trace-1", "1") + part("y", "b") + "--b--", type, rules) == wanted)
        #expect(identity(part("y", "b") + part("x", "a") + "--b--", type, rules) != wanted)
        let file = part("f", "a", "; filename=\"n\"") + "--b--"
        #expect(identity(file, type, rules) != identity(file.replacing("\r\na\r\n", with: "\r\nA\r\n"), type, rules))
    }

    @Test(
        "malformed multipart content is compared byte by byte",
        arguments: [
            "", "x", "--b", "--b\r\n", "--b--x", "--b-", "--b \r\n\r\n1\r\n--b--", "--b\r\n\r\n1\r\n--b--", "--b\r\nX: y\r\n\r\n1\r\n--b--",
            "preamble\r\n" + part("x", "1") + "--b--", part("x", "1") + "--b--\r\nepilogue", part("x", "1"), part("x", "1") + "--bc--",
            part("x", "1", "; name=\"y\"") + "--b--", part("x", "1", "; filename*=UTF-8''a") + "--b--", part("x\\\"", "1") + "--b--",
            part("x", "1", fields: "Content-Transfer-Encoding: base64\r\n") + "--b--", part("x", "1", fields: "Content-Type\r\n") + "--b--",
            part("x", "1", fields: " folded\r\n") + "--b--", "--b\r\nContent-Disposition: attachment; name=\"x\"\r\n\r\n1\r\n--b--",
            "--b\r\nContent-Disposition: form-data\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--b--",
            "--b\nContent-Disposition: form-data; name=\"x\"\n\n1\n--b--", part("x", "1", fields: "A\u{1}: b\r\n") + "--b--",
        ])
    func odd(content: String) {
        #expect(identity(content) != identity(content.replacing("--b", with: "--c"), "multipart/form-data; boundary=c"))
        #expect(identity(content) == identity(content))
    }

    @Test(
        "content with an invalid multipart type is compared byte by byte",
        arguments: [
            "multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"\"",
            "multipart/form-data; boundary=b; x=y",
            "multipart/form-data; boundary=b; boundary=b", "multipart/mixed; boundary=b", "multipart/form-data; boundary=\"b\\b\"",
            "multipart/form-data; boundary=b\"", "multipart/form-data; b",
        ])
    func oddType(type: String) {
        let content = part("x", "1") + part("y", "2") + "--b--"
        #expect(identity(content, type) != identity(part("y", "2") + part("x", "1") + "--b--", type))
        #expect(identity(content, type) != identity(content))
    }
}

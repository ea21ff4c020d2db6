// Tests which clients receive encoded content, and the Accept-Encoding that the upstream receives. Without sockets.

import Forwarding
import HTTPCore
import ReverseProxy
import Testing

@Suite("Accepted content codings")
struct AcceptedCodingTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let sentence: String
        /// nil: the field is missing.
        let accept: String?
        let passedOn: String

        var testDescription: String { sentence }

        init(_ sentence: String, _ accept: String?, _ passedOn: String) {
            (self.sentence, self.accept, self.passedOn) = (sentence, accept, passedOn)
        }
    }

    static let rows = [
        Row("no field: no coding, because some such clients cannot decode", nil, "identity"),
        Row("an empty field", "", "identity"),
        Row("supported codings are requested in order of preference", "br, gzip, zstd", "gzip, br, zstd"),
        Row("unsupported codings are not requested", "compress, gzip", "gzip"),
        Row("names are case-insensitive; x-gzip is gzip", "X-GZIP, BR", "gzip, br"),
        Row("weight 0 excludes a coding", "gzip;q=0, br;q=0.000, zstd;q=0.1", "zstd"),
        Row("* requests no coding", "*", "identity"),
        Row("identity alone", "identity", "identity"),
        Row("white space around weights", "gzip ; q=1 , br ;q=0", "gzip"),
    ]

    private static func fields(_ accept: String?) -> Fields {
        var fields = Fields()
        if let accept { fields.append(name: "Accept-Encoding", value: accept) }
        return fields
    }

    @Test("the Accept-Encoding sent to the upstream", arguments: rows)
    func passedOn(_ row: Row) {
        #expect(String(decoding: AcceptedCoding.passedOn(Self.fields(row.accept)), as: UTF8.self) == row.passedOn)
    }

    private static func response(_ control: String? = nil) -> ResponseHead {
        var fields = Fields()
        fields.append(name: "Content-Encoding", value: "gzip")
        if let control { fields.append(name: "Cache-Control", value: control) }
        return ResponseHead(status: 200, fields: fields)
    }

    private static func isCoded(_ head: ResponseHead, for accept: String?, decoded: [UInt8]?) -> Bool {
        let request = RequestHead(method: .get, target: [0x2f], version: .http11, fields: fields(accept))
        return AcceptedCoding.shown(head, [1], decoded: decoded, to: request).content == [1]
    }

    @Test("content is decoded for clients that do not accept its coding, unless no-transform applies (RFC 9110 §7.7)")
    func shown() {
        #expect(Self.isCoded(Self.response(), for: "gzip", decoded: [2]))
        #expect(!Self.isCoded(Self.response(), for: "br", decoded: [2]))
        #expect(!Self.isCoded(Self.response(), for: nil, decoded: [2]))
        #expect(Self.isCoded(Self.response(), for: nil, decoded: nil))
        #expect(Self.isCoded(Self.response("no-transform"), for: nil, decoded: [2]))
    }
}

// Tests of decoding stored keys, of tags, and of redaction.

import HTTPCore
import TestSupport
import Testing

@testable import CachePolicy

@Suite("Stored keys")
struct StoredKeyTests {
    private func key(_ target: String, partition: [UInt8] = [], extra: [UInt8] = []) -> [UInt8] {
        var key: [UInt8] = []
        let bytes = Array(target.utf8)
        let prefix = CacheKey.prefix(authority: Array("https://api.test".utf8), partition: partition, extra: extra)
        CacheKey.append(to: &key, prefix: prefix, target: bytes.span, rules: nil)
        return key
    }

    @Test(
        "a stored key is decoded to the canonical target",
        arguments: [
            ("/", "/"), ("/users", "/users"), ("/users?", "/users"), ("/a?b=2&a=1&a=0", "/a?a=1&a=0&b=2"), ("/a?x", "/a?x"),
            ("/a?x=", "/a?x="), ("/a?q=a+b&q=%7e", "/a?q=a%20b&q=~"), ("/%7Ea%2fb", "/~a%2Fb"),
            ("/a?" + String(repeating: "x", count: 86), "/a?" + String(repeating: "x", count: 86)),
        ])
    func readBack(target: String, canonical: String) throws {
        let stored = try #require(StoredKey(key(target)))
        #expect(stored.readableTarget == canonical)
        #expect(String(decoding: stored.authority, as: UTF8.self) == "https://api.test")
        #expect(stored.shortPartition == nil && stored.variant == nil)
    }

    @Test(
        "the displayed target leads to the same key, also with invalid percent signs",
        arguments: [
            "/", "/a?b=2&a=1", "/d?a=100%", "/d?a=%zz", "/d%zz", "/%", "/%%", "/%%32%46", "/%2F%", "/a%%41%42", "/a?%=%&%%=%%25", "/%%411",
            "/%25", "/a?q=%2541%",
        ])
    func typed(target: String) throws {
        let stored = try #require(StoredKey(key(target)))
        #expect(key(String(decoding: stored.typedTarget, as: UTF8.self)) == key(target))
    }

    @Test("a partition is displayed as a short hash, and the shared key omits it")
    func partition() throws {
        let partition = (0..<16).map { UInt8($0 * 16) }
        let whole = key("/a?b=1", partition: partition, extra: [1, 2, 3])
        let stored = try #require(StoredKey(whole))
        #expect(stored.shortPartition == "00102030")
        #expect(stored.credentialFreeKey(of: whole) == key("/a?b=1", extra: [1, 2, 3]))
    }

    private static let contents: [[UInt8]?] = [
        nil, RequestContent.said(method: .query, fields: Fields(), content: Array("1".utf8).span, rules: nil), (0..<32).map { $0 * 8 },
        Array("kE\n17".utf8),
    ]

    @Test("content, host, fields and scheme of a key are decoded for any settings", arguments: [false, true], 0..<3)
    func extra(hasHost: Bool, fieldCount: Int) {
        let values: [[[UInt8]]] = [[], [Array("v".utf8)], [Array("v".utf8), []], [Array(ConnectionField.scheme.utf8)]]
        let names = (0..<fieldCount).map { Array("x-\($0)".utf8) }
        let hosts = hasHost ? ["", "h", "api.test:8080"] : [nil]
        for content in Self.contents {
            for host in hosts {
                for value in values {
                    for isSecure in [false, true] {
                        let extra = KeyExtra(
                            content: content, host: host.map { Array($0.utf8) },
                            fields: names.map { KeyExtra.Field(name: $0, values: value) }, isSecure: isSecure)
                        #expect(KeyExtra(extra.encoded, KeyExtra.Shape(hasHost: hasHost, fieldNames: names)) == extra)
                        let others = KeyExtra.Shape(hasHost: hasHost, fieldNames: names.map { $0 + $0 })
                        #expect(names.isEmpty || KeyExtra(extra.encoded, others) == nil, "the key has other fields")
                    }
                }
            }
        }
        #expect(KeyExtra([1, 2, 3], KeyExtra.Shape(hasHost: hasHost, fieldNames: names)) == nil)
        // The encoding from before schemes were stored.
        #expect(KeyExtra(content: [7]).encoded == [1, 0, 0, 0, 7] && KeyExtra().encoded.isEmpty)
    }

    @Test("a variant's key names its generation and its selecting fields")
    func variant() throws {
        var whole = key("/a?b=1")
        var fields = Fields()
        fields.append(name: "Accept-Language", value: "de, en")
        let names = [Array("accept-language".utf8)[...], Array("x-tenant".utf8)[...]]
        CacheKey.appendVariant(to: &whole, generation: 1_750_000_000_000, selecting: SelectingFields.values(of: names, in: fields))
        let stored = try #require(StoredKey(whole))
        let variant = try #require(stored.variant)
        #expect(stored.readableTarget == "/a?b=1")
        #expect(variant.generation == 1_750_000_000_000)
        #expect(variant.selecting.map(\.name) == ["accept-language", "x-tenant"])
        #expect(variant.selecting.map(\.value) == ["de,en", nil])
        #expect(Array(whole[..<stored.baseCount]) == key("/a?b=1"))
    }

    @Test("truncated or corrupted keys are rejected without a crash")
    func damaged() {
        var whole = key("/a?b=1&c=2", partition: [1, 2, 3])
        CacheKey.appendVariant(to: &whole, generation: 7, selecting: [])
        for count in 0..<whole.count { _ = StoredKey(Array(whole[..<count])) }
        for index in whole.indices {
            for value: UInt8 in [0, 0x7f, 0xff] {
                var bent = whole
                bent[index] = value
                _ = StoredKey(bent).map { $0.credentialFreeKey(of: bent) }
            }
        }
        #expect(StoredKey([]) == nil)
        #expect(StoredKey(Array("X".utf8)) == nil)
        #expect(StoredKey(key("/a") + [UInt8(ascii: "I")]) == nil)
    }

    @Test(
        "values of secret arguments are redacted",
        arguments: [
            ("/a?api_key=x&b=1", "/a?api_key=REDACTED&b=1"), ("/a?ACCESS-TOKEN=x", "/a?ACCESS-TOKEN=REDACTED"), ("/a?token", "/a?token"),
            ("/a?monkey=1", "/a?monkey=1"), ("/a?key=1&key=2", "/a?key=REDACTED&key=REDACTED"), ("/token=5", "/token=5"),
            ("/?user[password]=x&a=1;token=y;b=2", "/?user[password]=REDACTED&a=1;token=REDACTED;b=2"), ("/?a&&b=1&", "/?a&&b=1&"),
            ("/?user%5Bpassword%5D=x", "/?user%5Bpassword%5D=REDACTED"), ("/?X-Goog-Signature=s", "/?X-Goog-Signature=REDACTED"),
            ("/?bearer_token=x&filter.name=a", "/?bearer_token=REDACTED&filter.name=a"),
            ("/?private_token=x&csrfmiddleware=y", "/?private_token=REDACTED&csrfmiddleware=REDACTED"),
            ("/?subscription-key=z", "/?subscription-key=REDACTED"),
            // Page tokens are not secrets: they request the next page.
            ("/?pageToken=x&next_page_token=y&continuation_token=z", "/?pageToken=x&next_page_token=y&continuation_token=z"),
            // Escapes as in cache keys, and URLs within URLs.
            ("/?x=1;token%3DS&y=2", "/?x=1;token%3DREDACTED&y=2"), ("/?x=1%3btoken%3dS%26a%3D1", "/?x=1%3btoken%3dREDACTED%26a%3D1"),
            ("/?next=http://a/?token=S&b=1", "/?next=http://a/?token=REDACTED&b=1"),
            ("/?next=http%3A%2F%2Fa%2F%3Ftoken%3DS&b=1", "/?next=http%3A%2F%2Fa%2F%3Ftoken%3DREDACTED&b=1"),
            // Parameters of path segments.
            ("/a;jsessionid=S/b;v=1?c=2", "/a;jsessionid=REDACTED/b;v=1?c=2"), ("/a%3Btoken%3DS", "/a%3Btoken%3DREDACTED"),
            ("/a;x/token=5", "/a;x/token=5"), ("/a;token=b%2Fc%3Bd/e", "/a;token=REDACTED/e"), ("/a;key=5;code=6", "/a;key=5;code=6"),
            ("/?token=a%26b&c=1", "/?token=REDACTED&c=1"), ("/a;token=S?token=S", "/a;token=REDACTED?token=REDACTED"),
            ("/?a%", "/?a%"), ("/?a%3", "/?a%3"), ("/?%3Dx", "/?%3Dx"),
        ])
    func secrets(target: String, shown: String) {
        #expect(SecretNames.redacted(Array(target.utf8)) == shown)
    }

    @Test("the path without arguments contains no argument value, for any target")
    func pathAlone() {
        for (target, path) in [
            ("/a/b", "/a/b"), ("/a?b=c", "/a"), ("/a?", "/a"), ("/a;b=c/d", "/a"), ("/a%3Fb=c", "/a"), ("/a%3bb", "/a"), ("/a%23b", "/a"),
            ("/a=b", "/a"), ("/a%3Db", "/a"), ("/caf%C3%A9/x", "/caf%C3%A9/x"), ("/a%3", "/a%3"), ("", ""), ("?a", ""),
        ] {
            #expect(SecretNames.pathAlone(target.utf8) == path, "\(target)")
        }
        var numbers = SeededGenerator(seed: 41)
        let pieces = ["/", "a", "%2F", "%", "%41", "?", "%3f", ";", "%3B", "#", "=", "%3d", "&"]
        for _ in 0..<2_000 {
            let before = (0..<Int.random(in: 0...6, using: &numbers)).map { _ in pieces.randomElement(using: &numbers)! }.joined()
            let sign = ["?", ";", "#", "=", "%3F", "%3B", "%23", "%3D"].randomElement(using: &numbers)!
            let path = SecretNames.pathAlone("/\(before)\(sign)s3cr3t".utf8)
            #expect(!path.contains("s3cr3t") && "/\(before)\(sign)".hasPrefix(path), "\(before)\(sign)")
        }
    }

    @Test("tags come from Cache-Groups, Surrogate-Key and Cache-Tag, without duplicates")
    func tags() {
        var fields = Fields()
        fields.append(name: "Cache-Groups", value: #""a b", "c\"d";x=1"#)
        fields.append(name: "surrogate-key", value: "users  user/1 c")
        fields.append(name: "Cache-Tag", value: "users, posts ,")
        #expect(CacheTags.tags(of: fields) == ["a b", "c\"d", "users", "user/1", "c", "posts"])
        // A single syntax error invalidates the whole field (RFC 9651 §4.2).
        for value in ["token", "5", "\"open"] {
            var fields = Fields()
            fields.append(name: "Cache-Groups", value: "\"a\", \(value)")
            #expect(CacheTags.tags(of: fields) == [])
        }
    }
}

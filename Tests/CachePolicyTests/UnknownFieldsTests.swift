// Tests of unknown fields: when they make no difference, which of them change with each request, and the number of variants per key.

import CachePolicy
import HTTPCore
import Testing

@Suite("Unknown request fields")
struct UnknownFieldsTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let fields: [String]
        let makesNoDifference: Bool

        var testDescription: String { fields.joined(separator: ", ") }

        init(_ makesNoDifference: Bool, _ fields: String...) { (self.fields, self.makesNoDifference) = (fields, makesNoDifference) }
    }

    @Test(
        "Vary and Cache-Control decide whether the upstream states which requests a response applies to",
        arguments: [
            Row(false), Row(false, "Vary: Origin"), Row(false, "Vary: accept-encoding, ORIGIN"), Row(false, "Vary: "),
            Row(false, "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers"),
            Row(false, "Vary: Origin Accept-Encoding"), Row(false, "Vary: ;"), Row(true, "Vary: ;, X-Tenant"),
            Row(false, "Vary: Accept"), Row(true, "Vary: Origin", "Vary: X-Tenant"), Row(true, "Vary: Accept-Encoding, Stripe-Account"),
            Row(false, "Cache-Control: private", "Vary: Cookie"), Row(true, "Cache-Control: private", "Vary: Api-Version"),
            Row(true, "Cache-Control: public"), Row(true, "Cache-Control: public, no-cache"), Row(true, "Cache-Control: s-maxage=0"),
            Row(false, "Cache-Control: s-maxage="), Row(false, "Cache-Control: s-maxage"), Row(false, "Cache-Control: s-maxage=x"),
            Row(false, "Cache-Control: s-maxage=5, s-maxage=-1"), Row(false, "Cache-Control: max-age=60, s-maxage=x"),
            Row(true, "Cache-Control: public, s-maxage=x"),
            Row(true, "Cache-Control: max-age=1"), Row(false, "Cache-Control: max-age=0"), Row(false, "Cache-Control: no-cache"),
            Row(false, "Cache-Control: private, max-age=60"), Row(false, "Cache-Control: private, s-maxage=60"),
            Row(false, "Cache-Control: max-age=x"), Row(false, "Cache-Control: must-revalidate"), Row(false, "Cache-Control: immutable"),
            Row(true, "Expires: Thu, 01 Jan 1970 00:01:00 GMT"), Row(false, "Expires: 0"),
            Row(false, "Expires: Thu, 01 Jan 1970 00:00:00 GMT"),
            Row(false, "Expires: Thu, 01 Jan 1970 00:01:00 GMT", "Cache-Control: private"),
            Row(false, "Expires: Thu, 01 Jan 1970 00:01:00 GMT", "Cache-Control: max-age=0"),
            Row(true, "CDN-Cache-Control: max-age=60", "Cache-Control: private"),
            Row(false, "Pragma: no-cache"), Row(false, "ETag: \"a\"", "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT"),
        ])
    func language(_ row: Row) {
        var head = ResponseHead(status: 200)
        head.fields.append(name: "Content-Type", value: "application/json")
        for field in row.fields {
            let colon = field.firstIndex(of: ":") ?? field.endIndex
            head.fields.append(name: String(field[..<colon]), value: String(field[colon...].dropFirst(2)))
        }
        let settings = CachePolicySettings()
        let start = Timestamp(milliseconds: 0)
        let received = ReceivedResponse(
            head, control: ResponseCacheControl(head.fields, targeted: settings.targetedFields), contentBytes: 2, requestTime: start,
            responseTime: start)
        let stored = StoredHead.make(received, settings: settings).metadata
        #expect(stored.flags.contains(.forAllFields) == row.makesNoDifference)
    }

    // MARK: Cache keys

    @Test("a key with a hash of unknown fields is decoded for any hash and target")
    func keys() throws {
        for target in ["/a", "/a?b=1", "/a?b=1&c", "/?"] {
            for hash in [1, 0x48ff_ffff_48ff_ffff, .max, 0x2020_2020_0000_0000] as [UInt64] {
                var plain: [UInt8] = []
                CacheKey.append(to: &plain, authority: Array("http://a".utf8), target: Array(target.utf8).span)
                var key = UnknownFields.key(plain, hash: hash)
                let stored = try #require(StoredKey(key))
                #expect(stored.unknownFieldsHash == hash && stored.baseCount == plain.count && stored.markerCount == key.count)
                #expect(stored.credentialFreeKey(of: key) == plain)
                CacheKey.appendVariant(to: &key, generation: 7, selecting: SelectingFields.values(of: [], in: Fields()))
                let variant = try #require(StoredKey(key))
                #expect(variant.unknownFieldsHash == hash && variant.variant?.generation == 7)
                #expect(variant.markerCount == plain.count + UnknownFields.suffixBytes)
                #expect(try #require(StoredKey(plain)).unknownFieldsHash == nil)
            }
        }
    }

    @Test("keys are derived with and without unknown fields, and with and without a partition")
    func targetKeys() {
        let fields = UnknownFields(hash: 5, kept: [1], exact: [2])
        let plain = TargetKeys(own: [1, 2], credentialFree: [1, 2], unknownFields: fields)
        #expect(!plain.isPartitioned && plain.unknownFieldsHash == 5 && plain.own == UnknownFields.key([1, 2], hash: 5))
        #expect(plain.forAllFields == TargetKeys(own: [1, 2], credentialFree: [1, 2]))
        var partitioned = TargetKeys(own: [1, 3], credentialFree: [1, 2], unknownFields: fields)
        partitioned.common = [1, 4]
        #expect(partitioned.isPartitioned && partitioned.inCommon.own == UnknownFields.key([1, 4], hash: 5))
        #expect(partitioned.forAllFields.inCommon.own == [1, 4] && partitioned.isCommon(partitioned.inCommon.own))
        #expect(UnknownFields(hash: 0, kept: [], exact: []).hash != 0)
    }

    // MARK: Fields that change

    private func name(_ text: String) -> ByteKey { ByteKey(Array(text.utf8)) }

    @Test("a field that changes in sixteen requests counts as changing for that client, and for all after two clients")
    func changing() {
        var fields = ChangingFields()
        let time = name("x-timestamp")
        var found: [Bool] = []
        for value in 1...16 as ClosedRange<UInt64> {
            #expect(!fields.changes(time, for: 1))
            found.append(fields.note(time, value, by: 1))
        }
        #expect(found == Array(repeating: false, count: 15) + [true])
        #expect(fields.changes(time, for: 1) && !fields.changes(time, for: 2) && !fields.changes(name("x-other"), for: 1))
        for value in 101...116 as ClosedRange<UInt64> { fields.note(time, value, by: 2) }
        #expect(fields.changes(time, for: 3))
    }

    @Test("a repeated value ends this for the client at once, and for clients without their own history")
    func repeated() {
        var fields = ChangingFields()
        let account = name("x-account")
        for client in 1...2 as ClosedRange<UInt64> {
            for value in 1...16 as ClosedRange<UInt64> { fields.note(account, value, by: client) }
        }
        #expect(fields.changes(account, for: 3))
        fields.note(account, 7, by: 1)
        #expect(!fields.changes(account, for: 1) && fields.changes(account, for: 2) && !fields.changes(account, for: 3))
        for value in 100...200 as ClosedRange<UInt64> { fields.note(account, value, by: 1) }
        #expect(!fields.changes(account, for: 1), "a field that selected once may select again")
    }

    @Test("two equal values in a row restart the count")
    func twice() {
        var fields = ChangingFields()
        let time = name("x-time")
        for value in 1...16 as ClosedRange<UInt64> { fields.note(time, value, by: 1) }
        fields.note(time, 16, by: 1)
        #expect(!fields.changes(time, for: 1))
        for value in 17...31 as ClosedRange<UInt64> { fields.note(time, value, by: 1) }
        #expect(fields.changes(time, for: 1))
    }

    @Test("a client with a constant value keeps it in its keys, as do new clients, whatever two others send")
    func steady() {
        let account = name("x-account")
        func attacked(_ others: (inout ChangingFields) -> Void) -> ChangingFields {
            var fields = ChangingFields()
            others(&fields)
            for client in 1...2 as ClosedRange<UInt64> {
                for value in 100...116 as ClosedRange<UInt64> { fields.note(account, value * client, by: client) }
            }
            others(&fields)
            return fields
        }
        let alone = attacked { $0.note(account, 7, by: 3) }
        #expect(!alone.changes(account, for: 3), "the second request has the same value")
        #expect(!alone.changes(account, for: 4), "two clients do not outweigh it")
        let server = attacked { fields in for _ in 1...2 { fields.note(account, 7, by: 3) } }
        #expect(!server.changes(account, for: 3) && !server.changes(account, for: 4))
        // Clients that have sent their only value twice, as after a retry, need eight witnesses each.
        var twice = ChangingFields()
        for client in 3...4 as ClosedRange<UInt64> {
            for _ in 1...2 { twice.note(account, client, by: client) }
        }
        for client in 11...26 as ClosedRange<UInt64> {
            #expect(!twice.changes(account, for: 5), "\(client)")
            for value in 1...16 as ClosedRange<UInt64> { twice.note(account, client * 100 + value, by: client) }
        }
        #expect(twice.changes(account, for: 5) && !twice.changes(account, for: 3))
        // Timestamps in seconds count once the client has sent as many as a witness.
        var times = attacked { _ in }
        for value in 1...16 as ClosedRange<UInt64> {
            #expect(value == 1 || !times.changes(account, for: 3), "\(value)")
            for _ in 1...2 { times.note(account, value, by: 3) }
        }
        #expect(times.changes(account, for: 3))
    }

    @Test("a client that cycles through a thousand values stops counting as changing when they repeat")
    func turns() {
        var fields = ChangingFields()
        let account = name("x-account")
        for value in 1...1_000 as ClosedRange<UInt64> { fields.note(account, value, by: 1) }
        #expect(fields.changes(account, for: 1))
        for value in 1...5 as ClosedRange<UInt64> { fields.note(account, value, by: 1) }
        #expect(!fields.changes(account, for: 1))
    }

    @Test("one client's values do not affect other clients or evict their history")
    func alone() {
        var fields = ChangingFields()
        let (account, time) = (name("stripe-account"), name("x-timestamp"))
        for value in 1...16 as ClosedRange<UInt64> {
            fields.note(account, value, by: 666)
            for client in 1...3 as ClosedRange<UInt64> { fields.note(time, value * 10 + client, by: client) }
        }
        #expect(!fields.changes(account, for: 1))
        fields.note(time, 1, by: 666)
        fields.note(time, 2, by: 666)
        fields.note(time, 1, by: 666)
        for number in 0..<2_000 { fields.note(name("x-junk-\(number)"), 1, by: 666) }
        #expect((1...3).allSatisfy { fields.changes(time, for: $0) })
    }

    // MARK: Variants

    private func variant(_ hash: UInt64, by client: UInt64, _ fields: FieldVariants.NamedValue...) -> FieldVariants.Variant {
        FieldVariants.Variant(hash: hash, client: client, fields: fields)
    }

    @Test("a key has at most 64 variants, and the client with too many loses its own")
    func limit() {
        var variants = FieldVariants()
        var removed: [UInt64] = []
        for hash in 1...10 as ClosedRange<UInt64> { variants.note(variant(hash, by: 1), of: 9).map { removed.append($0) } }
        #expect(removed == [])
        for hash in 101...1_000 as ClosedRange<UInt64> { variants.note(variant(hash, by: 666), of: 9).map { removed.append($0) } }
        #expect(removed == Array(101...(1_000 - 54)))
        removed = []
        for hash in 11...20 as ClosedRange<UInt64> { variants.note(variant(hash, by: 2), of: 9).map { removed.append($0) } }
        #expect(removed.count == 10 && removed.allSatisfy { $0 > 100 })
        let (known, elsewhere) = (variants.note(variant(3, by: 1), of: 9), variants.note(variant(1, by: 666), of: 8))
        #expect(known == nil && elsewhere == nil)
    }

    @Test("a request is compared with the most similar variant, and the differing field is named")
    func differences() {
        var variants = FieldVariants()
        let device = { (value: UInt64) in FieldVariants.NamedValue(self.name("x-device"), value) }
        let locale = { (value: UInt64) in FieldVariants.NamedValue(self.name("x-locale"), value) }
        #expect(variants.differences(of: [device(1)], hash: 1, from: 9) == [])
        _ = variants.note(variant(1, by: 1, device(1), locale(1)), of: 9)
        _ = variants.note(variant(2, by: 1, device(2), locale(2)), of: 9)
        #expect(variants.differences(of: [device(1), locale(2)], hash: 3, from: 9).count == 1)
        #expect(variants.differences(of: [device(3), locale(2)], hash: 4, from: 9) == [name("x-device")])
        #expect(variants.differences(of: [], hash: 0, from: 9).count == 2)
        #expect(variants.differences(of: [device(1)], hash: 5, from: 8) == [])
    }
}

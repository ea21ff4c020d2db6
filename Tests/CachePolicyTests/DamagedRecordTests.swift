// Tests of metadata and heads damaged on disk. Lists are made without verifying checksums.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Damaged records")
struct DamagedRecordTests {
    private static let now = Timestamp(seconds: 1_700_000_000)

    /// Numbers of the metadata that Cistern never writes, with their positions.
    private static let numbers: [(place: Int, number: Int64)] = [
        (0, .min), (0, .max), (1, .min), (1, .max), (2, .min), (2, .max), (3, .max), (3, -1), (4, .max), (5, .max), (6, .max),
    ]

    @Test("metadata with an impossible number is rejected", arguments: numbers)
    func metadata(place: Int, number: Int64) {
        var bytes = StoredMetadata(requestTime: Self.now, responseTime: Self.now, date: Self.now).encoded()
        #expect(StoredMetadata(bytes.span) != nil)
        bytes.withUnsafeMutableBytes { $0.storeBytes(of: number.littleEndian, toByteOffset: 8 + place * 8, as: Int64.self) }
        #expect(StoredMetadata(bytes.span) == nil)
    }

    @Test("metadata at the limits of valid values is read, and its age can be computed")
    func limits() {
        let year9999 = Timestamp(seconds: 253_402_300_799)
        let year0 = Timestamp(seconds: -62_167_219_200)
        for (request, response, date) in [(year0, year9999, year0), (year9999, year0, year9999)] {
            var metadata = StoredMetadata(requestTime: request, responseTime: response, date: date)
            metadata.ageValue = 1 << 31
            metadata.freshnessLifetime = year9999.seconds - year0.seconds
            let encoded = metadata.encoded()
            let read = StoredMetadata(encoded.span)
            #expect(read == metadata)
        }
    }

    @Test(
        "a head with a malformed status line is rejected",
        arguments: ["HTTP/1.1\r200 OK\r\nA: b\r\n", "HTTP/1.1 200\r\n\r\n", "\r\r\r\r\r\r\r\r\r200\r\r\r"])
    func head(text: String) {
        let bytes = Array(text.utf8)
        #expect(StoredHead.parse(bytes.span) == nil)
    }
}

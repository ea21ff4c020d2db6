// Tests of the log lines about an opened store.

import CachePolicy
import CacheStore
import Glibc
import TestSupport
import Testing

@testable import ResponseCache

@Suite("The cache: opening the store")
struct OpeningReportTests {
    private let temporary = TestTools.temporaryDirectory()

    private func open() throws -> ResponseStore { try ResponseStore(StoreSettings(directory: temporary.path, capacityBytes: 16 << 20)) }

    private func warnings() throws -> [String] {
        let settings = ResponseCacheSettings(upstream: UpstreamOrigin(Array("http://upstream.test".utf8)))
        let shared = APICacheState(store: try open(), sent: SentRequests(), settings: settings)
        return OpeningReport(shared).lines.compactMap { if case .warning(let text) = $0 { text } else { nil } }
    }

    private func flipLastRecord() throws {
        let file = try #require(fopen("\(temporary.path)/segment-0000000000000001", "r+"))
        defer { fclose(file) }
        // After the only item: 64 bytes of header and 8 of content.
        fseek(file, 64 + 8 + 30, SEEK_SET)
        let byte = fgetc(file)
        fseek(file, -1, SEEK_CUR)
        fputc(byte ^ 1, file)
    }

    @Test("a damaged purge record is reported, and an unclean stop is not")
    func damaged() throws {
        do {
            let store = try open()
            store.insert(NewItem(key: [1, 2, 3, 4], metadata: [], head: [], body: [5, 6, 7, 8], retention: .whenUsed))
            store.flush()
            store.remove([1, 2, 3, 4].span)
            store.flush()
        }
        #expect(try warnings().isEmpty)
        try flipLastRecord()
        #expect(try warnings().map { $0.hasPrefix("damaged records in the store \(temporary.path): 1.") } == [true])
    }
}

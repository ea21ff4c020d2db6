// Whatever an archive holds, what is imported of it is a request and a response that could have come over the wire, and not from the future.

import CachePolicy
import HTTPCore
import JSON
import ResponseCache

@testable import Administration

enum ArchiveProperty {
    private static let now: Int64 = 1_700_000_000_000
    private static let origins = ["https://upstream.example/base", "http://u"]

    static func check(_ bytes: [UInt8]) throws(Violation) {
        guard let value = JSONValue(bytes) else { return }
        for isShared in [false, true] {
            let settings = CachePolicySettings()
            guard let entry = try? ArchivedResponse(value, origins: origins, isShared: isShared, settings: settings, now: now) else {
                continue
            }
            let target = entry.request.target
            try expect(target.first == UInt8(ascii: "/") && target.allSatisfy { $0 > 0x20 && $0 < 0x7f }, "its target is none")
            try expect(
                entry.requestTime <= entry.responseTime && entry.responseTime <= Timestamp(milliseconds: now), "it comes from the future")
            try expect((200...599).contains(entry.response.status.rawValue), "its status is none")
            for fields in [entry.request.fields, entry.response.fields] {
                for index in 0..<fields.count {
                    try expect(fields.name(at: index).allSatisfy(isTokenByte), "a field's name is no token")
                    try expect(fields.value(at: index).allSatisfy(isFieldValueByte), "a field's value holds a control character")
                }
            }
            if isShared { try expect(!entry.request.fields.contains(.authorization), "credentials stay in what is for everybody") }
            try checkStored(entry, settings)
        }
    }

    private static func checkStored(_ entry: ArchivedResponse, _ settings: CachePolicySettings) throws(Violation) {
        let received = ReceivedResponse(
            entry.response, control: ResponseCacheControl(entry.response.fields), contentBytes: entry.content.count,
            requestTime: entry.requestTime, responseTime: entry.responseTime)
        let (bytes, metadata) = StoredHead.make(received, settings: settings)
        let head = bytes.withUnsafeBytes { StoredHead.parse($0) }
        try expect(head?.status == entry.response.status, "its head cannot be read back")
        try expect(metadata.encoded().withUnsafeBytes { StoredMetadata($0) } == metadata, "its metadata cannot be read back")
        _ = Freshness.currentAge(of: metadata, now: Timestamp(milliseconds: now))
    }
}

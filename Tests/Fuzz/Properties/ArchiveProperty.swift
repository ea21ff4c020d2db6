// Requests and responses imported from any archive are valid HTTP messages, and not from the future.

import Archives
import CachePolicy
import HTTPCore
import JSON
import ResponseCache

@testable import Administration

enum ArchiveProperty {
    private static let now: Int64 = 1_700_000_000_000
    private static let origins = ["https://upstream.example/base", "http://u"]

    static func check(_ bytes: [UInt8]) throws(Violation) {
        try checkReplay(bytes)
        guard let value = JSONValue(bytes) else { return }
        for isShared in [false, true] {
            let settings = CachePolicySettings()
            guard let entry = try? ArchivedResponse(value, origins: origins, isShared: isShared, settings: settings, now: now) else {
                continue
            }
            let target = entry.request.target
            try expect(target.first == UInt8(ascii: "/") && target.allSatisfy { $0 > 0x20 && $0 < 0x7f }, "the target is invalid")
            try expect(
                entry.requestTime <= entry.responseTime && entry.responseTime <= Timestamp(milliseconds: now),
                "the entry's time is in the future or out of order")
            try expect((200...599).contains(entry.response.status.rawValue), "the status is invalid")
            for fields in [entry.request.fields, entry.response.fields] {
                for index in 0..<fields.count {
                    try expect(fields.name(at: index).allSatisfy(isTokenByte), "a field name is not a token")
                    try expect(fields.value(at: index).allSatisfy(isFieldValueByte), "a field value contains a control character")
                }
            }
            if isShared { try expect(!entry.request.fields.contains(.authorization), "a shared response contains credentials") }
            try checkStored(entry, settings)
        }
    }

    /// Checks what is replayed from the archive.
    static func checkReplay(_ bytes: [UInt8]) throws(Violation) {
        let archive = Array("{\"log\":{\"entries\":[".utf8) + bytes + Array("]}}".utf8)
        guard let reader = try? ArchiveReader(archive),
            let recording = try? Recording(reader, origins: [], secrets: SecretRedaction(fields: []), now: now / 1000)
        else { return }
        try checkLeave(recording)
        try checkAdapted(reader, recording)
        var replay = Replay(recording.requests, order: .once)
        for (number, one) in recording.requests.enumerated() {
            let head = recording.responses[number].head
            try expect(head.allSatisfy { isFieldValueByte($0) || $0 == 0x0d || $0 == 0x0a }, "a replayed head contains a control character")
            guard case .serve = replay.respond(to: one.request) else { throw Violation(description: "a recorded request gets no response") }
        }
        guard case .refuse(let refusal) = replay.respond(to: strange) else {
            throw Violation(description: "an unrecorded request gets a response")
        }
        _ = replay.problem(refusal, status: 404, replay.sentence(refusal, to: strange, replay.difference(refusal, strange)))
    }

    /// Checks that ignored parts never prevent a response, and that moved dates and echoes keep JSON valid.
    private static func checkAdapted(_ reader: ArchiveReader, _ recording: Recording) throws(Violation) {
        guard let rules = try? ReplayRules(ignore: ["body=/b", "arguments=a*"], echo: ["/a", "c"], shiftsDates: true, epochs: ["/a"]),
            let adapted = try? Recording(reader, origins: [], secrets: SecretRedaction(fields: []), rules, now: now / 1000)
        else { return }
        var replay = Replay(adapted.requests, order: .repeating)
        for (number, response) in adapted.responses.enumerated() {
            let request = adapted.requests[adapted.requests.count - 1 - number].request
            guard case .serve = replay.respond(to: request) else { throw Violation(description: "an adapted request gets no response") }
            let (plain, echoed) = (recording.responses[number].content, response.echoing(request).content)
            try expect(JSONTextChecker.check(plain.span) == JSONTextChecker.check(echoed.span), "adapted JSON is invalid")
            try expect(response.head.allSatisfy { isFieldValueByte($0) || $0 == 0x0d || $0 == 0x0a }, "an adapted head is invalid")
        }
        _ = (replay.report, replay.reportText)
    }

    /// Checks that CORS lines are complete, and that only origins in the recording are permitted, unless it permits all.
    private static func checkLeave(_ recording: Recording) throws(Violation) {
        let cors = ReplayCORS(recording.requests.map(\.response), origins: [])
        let recorded = recording.requests.flatMap { $0.response.all(.accessControlAllowOrigin).map { Array($0) } }
        for origin in recorded + [Array("http://strange.test".utf8)] {
            var fields = Fields()
            for (name, value) in [("Origin", origin), ("Access-Control-Request-Method", Array("PUT".utf8))] {
                fields.append(name: Array(name.utf8).span, value: value.span)
            }
            let head = RequestHead(method: .options, target: Array("/".utf8)[...], version: .http11, fields: fields)
            for lines in [cors.lines(for: head), cors.preflight(head) ?? []] {
                try expect(lines.isEmpty || lines.suffix(2).elementsEqual("\r\n".utf8), "a line is not terminated")
                try expect(lines.allSatisfy { isFieldValueByte($0) || $0 == 0x0d || $0 == 0x0a }, "a line contains a control character")
            }
            let isKnown = recorded.contains(origin) || recorded.contains(Array("*".utf8))
            try expect(isKnown || cors.preflight(head) == nil, "an origin without permission is allowed")
        }
    }

    private static let strange = ReplayRequest(
        method: Array("STRANGE".utf8), target: Array("/a?token=b".utf8), fields: Fields(), content: [], SecretRedaction(fields: []))

    private static func checkStored(_ entry: ArchivedResponse, _ settings: CachePolicySettings) throws(Violation) {
        let received = ReceivedResponse(
            entry.response, control: ResponseCacheControl(entry.response.fields), contentBytes: entry.content.count,
            requestTime: entry.requestTime, responseTime: entry.responseTime)
        let (bytes, metadata) = StoredHead.make(received, settings: settings)
        let head = StoredHead.parse(bytes.span)
        try expect(head?.status == entry.response.status, "the encoded head cannot be decoded")
        let encoded = metadata.encoded()
        try expect(StoredMetadata(encoded.span) == metadata, "the encoded metadata cannot be decoded")
        _ = Freshness.currentAge(of: metadata, now: Timestamp(milliseconds: now))
    }
}

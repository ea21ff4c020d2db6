// Helpers for tables of rules.

import HTTPCore

@testable import CachePolicy

/// Parses fields, one per line.
func fields(_ lines: String) -> Fields {
    var fields = Fields()
    for line in lines.split(separator: "\n") {
        let colon = line.firstIndex(of: ":")!
        fields.append(name: String(line[..<colon]), value: String(line[line.index(after: colon)...].drop { $0 == " " }))
    }
    return fields
}

func request(_ method: Method = .get, _ lines: String = "", target: String = "/a") -> RequestHead {
    RequestHead(method: method, target: Array(target.utf8)[...], version: .http11, fields: fields(lines))
}

let noon = Timestamp(seconds: 1_795_000_000)

/// The response as stored at `time`.
func stored(
    _ lines: String, status: UInt16 = 200, contentBytes: Int = 7, isDecoded: Bool = false, at time: Timestamp = noon,
    settings: CachePolicySettings = CachePolicySettings()
) -> (bytes: [UInt8], metadata: StoredMetadata) {
    let response = ResponseHead(status: Status(rawValue: status), reason: Array("Fine".utf8), fields: fields(lines))
    var received = ReceivedResponse(
        response, control: ResponseCacheControl(response.fields, targeted: settings.targetedFields), contentBytes: contentBytes,
        requestTime: time, responseTime: time)
    received.isDecoded = isDecoded
    return StoredHead.make(received, settings: settings)
}

/// Recency of a response that was requested and received at one time.
func recency(_ time: Timestamp) -> Recency { Recency(order: .unknown, isImported: false, requestTime: time, responseTime: time) }

extension Timestamp {
    func after(_ seconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds + seconds * 1000) }
}

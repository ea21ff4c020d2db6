// What the operator says of traces.

import CachePolicy
import HTTPCore

public struct TracingSettings: Sendable, Equatable {
    /// Where spans are sent, as OTLP over HTTP in JSON; empty: nothing is recorded.
    public var endpoint = ""
    /// Of requests that come without a decision, so many in a million are recorded.
    public var samplePerMillion = 10_000
    /// Requests that are recorded in a second at most, whoever wants that.
    public var limit = 100
    /// What the spans are said to come from.
    public var serviceName = "cistern"
    /// How long a span waits at most until it is sent. No setting: tests make it small.
    public var intervalMilliseconds = 5_000
    /// What is waited before a batch is sent for the second time, where the endpoint does not say; each further time twice as long. Nor this.
    public var pauseMilliseconds = 1_000

    public init() {}

    /// For the log: without user, password and the values of secret arguments.
    public var shownEndpoint: String {
        String(decoding: Array(SecretNames.redacted(endpoint.utf8).utf8)[...].withoutUserInformation, as: UTF8.self)
    }

    public var isOn: Bool { !endpoint.isEmpty }

    /// The URL that is posted to; nil where it is none of http or https.
    /// - Parameter text: `/v1/traces` is its path where it has none (OpenTelemetry protocol, "OTLP/HTTP Request").
    public static func endpoint(_ text: String) -> String? {
        guard let scheme = ["http://", "https://"].first(where: { text.lowercased().hasPrefix($0) }) else { return nil }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "#") }) else { return nil }
        let rest = text.dropFirst(scheme.count)
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        guard !authority.isEmpty, !authority.contains("?"), authority.last != "@", authority.first != ":" else { return nil }
        return slash == rest.endIndex || rest[slash...] == "/" ? scheme + authority + "/v1/traces" : text
    }
}

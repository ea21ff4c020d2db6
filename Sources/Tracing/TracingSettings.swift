// Settings of tracing.

import CachePolicy
import HTTPCore

public struct TracingSettings: Sendable, Equatable {
    /// URL to which spans are sent as OTLP over HTTP in JSON; empty to disable tracing.
    public var endpoint = ""
    /// Number of requests per million that are traced, among requests without a sampling decision.
    public var samplePerMillion = 10_000
    /// Maximum number of traced requests per second, even if clients request tracing.
    public var limit = 100
    /// Service name in the spans.
    public var serviceName = "cistern"
    /// Maximum time in milliseconds before a span is sent. No setting; tests reduce it.
    public var intervalMilliseconds = 5_000
    /// Milliseconds before the second attempt to send a batch, if the endpoint specifies none. Doubles with each further attempt. No
    /// setting; tests reduce it.
    public var pauseMilliseconds = 1_000

    public init() {}

    /// The endpoint for the log, without user, password and the values of secret arguments.
    public var shownEndpoint: String {
        String(decoding: Array(SecretNames.redacted(endpoint.utf8).utf8)[...].withoutUserInformation, as: UTF8.self)
    }

    public var isOn: Bool { !endpoint.isEmpty }

    /// Returns the URL to post to; nil if it is no http or https URL.
    /// - Parameter text: the configured URL. `/v1/traces` is appended if it has no path (OpenTelemetry protocol, "OTLP/HTTP Request").
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

// Retired settings. A retired setting still has its effect in this version and causes a warning that says what to do instead. Documents,
// the sample file and the schema omit it.

import CachePolicy
import Downstream
import Forwarding
import ReverseProxy
import Upstream

extension CisternSettings {
    /// Values of retired settings that another setting has replaced. `SettingsReader.finish` transfers them to that setting.
    public struct Retired: Sendable, Equatable {
        var retry = true
        var probePath = ""
        var probeInterval = 10_000
        var probeStatus = 200
        var whyField = false
        var keyField = false
        var modeField = false
        var usesStandardPolicy = false
        var dropOverrides = true
    }

    /// Limits of memory, in bytes; nil: see `DownstreamSettings.limitMemory`.
    public struct Memory: Sendable, Equatable {
        public var unsent: Int?
        public var requestBuffers: Int?
    }
}

enum RetiredSettings {
    private typealias Retired = Setting<CisternSettings>
    private static let hour = 3_600_000
    private static let gibibyte = 1 << 30

    /// Names that have no effect any more, with advice.
    static let removed = [
        "failure.rate": "a path no longer counts as failing because others fail: remove the line",
        "failure.recheck_limit": "checks run at each failure.recheck: remove the line",
    ]

    static let all: [Setting<CisternSettings>] = replaced + fixed

    /// Settings whose value another setting takes over.
    private static let replaced: [Setting<CisternSettings>] = [
        Retired("upstream.retry", .flag(\.retired.retry), by: "upstream.retry_budget", "0", insteadOf: "off"),
        Retired("failure.probe_path", .text(\.retired.probePath), by: "failure.probe", probe),
        Retired("failure.probe_interval", .duration(\.retired.probeInterval, 100...hour), by: "failure.probe", probe),
        Retired("failure.probe_status", .count(\.retired.probeStatus, 200...599), by: "failure.probe", probe),
        Retired("admin.why_field", .flag(\.retired.whyField), by: "admin.debug_fields", "[why]", insteadOf: "on"),
        Retired("admin.key_field", .flag(\.retired.keyField), by: "admin.debug_fields", "[key]", insteadOf: "on"),
        Retired("admin.mode_field", .flag(\.retired.modeField), by: "admin.debug_fields", "[mode]", insteadOf: "on"),
        Retired(
            "cache.profile", .choice(\.retired.usesStandardPolicy, [("none", false), (StandardPolicy.name, true)]), by: "cache.policy",
            StandardPolicy.name, insteadOf: StandardPolicy.name),
        Retired(
            "forwarding.drop_overrides", .flag(\.retired.dropOverrides), by: "forwarding.override_fields", "[]", insteadOf: "off"),
    ]

    private static let probe = "GET /health 200 every 10s"

    /// Settings without a successor that has an equal effect.
    private static let fixed: [Setting<CisternSettings>] = [
        Retired("failure.memory", .flag(\.proxy.upstream.failure.isOn), "use failure.recheck: 0 if it is off, else remove it"),
        Retired(
            "cache.collapse", .flag(\.proxy.collapsing.isOn),
            "use cache.collapse_wait: 0, which also disables the wait for other nodes, if it is off, else remove it"),
        Retired("upstream.idle_for_writes", .duration(\.proxy.upstream.idleForWrites, 0...hour)),
        Retired("upstream.resolve_interval", .duration(\.proxy.upstream.resolveInterval, 1_000...hour)),
        Retired(
            "admin.names", .list(\.admin.names), "use admin.token_file, whose token opens the status page under any name"),
        Retired(
            "own_pages", .flag(\.proxy.listening.servesOwnPages),
            "use admin_listen, which moves /metrics, /healthz and /readyz to separate addresses"),
        Retired("cache.strip_targeted_fields", .flag(\.proxy.policy.stripsTargetedFields)),
        Retired("cache.no_vary_search", .flag(\.proxy.policy.usesNoVarySearch)),
        Retired("cache.member_limit", .count(\.proxy.policy.memberLimit, 32...512)),
        Retired("cache.compress_from", .size(\.proxy.content.compressFromBytes, 1...gibibyte)),
        Retired("cache.recoded_memory", .size(\.proxy.content.recodedBytes, 0...(1 << 40))),
        Retired("cache.refresh_ahead_hits", .count(\.otherRoute.rules.refreshAheadHits, 1...1_000_000)),
        Retired("cache.background_limit", .count(\.proxy.background.limit, 0...10_000)),
        Retired(
            "limits.request_buffers", .size(\.memory.requestBuffers, 0...(1024 * gibibyte)),
            "remove it; 1/64 of the memory, at most 64MiB, then applies"),
        Retired(
            "limits.unsent", .size(\.memory.unsent, 0...(1024 * gibibyte)), "remove it; 1/8 of the memory, at most 512MiB, then applies"),
        Retired("limits.requests_per_connection", .count(\.proxy.downstream.requestsPerConnection, 0...1_000_000_000)),
        Retired("limits.handshakes", .count(\.proxy.listening.tls.handshakeLimit, 1...1_000_000)),
        Retired("http2.streams", .count(\.proxy.downstream.http2.streams, 1...10_000)),
        Retired("http2.control_frames", .count(\.proxy.downstream.http2.controlFrames, 10...1_000_000)),
        Retired("http2.resets", .count(\.proxy.downstream.http2.resets, 1...1_000_000)),
        Retired("share.timeout", .duration(\.share.timeout, 1...10_000), needsRestart: true),
        Retired("share.collapse", .flag(\.share.collapse), needsRestart: true),
    ]

    static let ofRoute = [
        Setting<CisternSettings.Route>(
            "refresh_ahead_hits", .count(\.rules.refreshAheadHits, 1...1_000_000),
            Setting<CisternSettings.Route>.keeping(String(CisternSettings.Route().rules.refreshAheadHits)))
    ]

    /// Whether a replacement has no former version, so that a configuration of the previous version cannot give both.
    static func isNew(_ replacement: String) -> Bool { replacement == "failure.probe" || replacement == "admin.debug_fields" }

    /// Transfers the values of retired settings to the settings that replace them. A retired setting with its default changes nothing.
    static func transfer(in settings: inout CisternSettings) {
        let retired = settings.retired
        settings.retired = CisternSettings.Retired()
        if !retired.retry { settings.proxy.upstream.retryBudget = 0 }
        if !retired.dropOverrides { settings.proxy.forwarding.overrideFields = [] }
        if !retired.probePath.isEmpty {
            let interval = TimeSpan.format(retired.probeInterval)
            settings.probe = "GET \(retired.probePath) \(retired.probeStatus) every \(interval)"
        }
        let fields = [("why", retired.whyField), ("key", retired.keyField), ("mode", retired.modeField)]
        settings.admin.debugFields += fields.filter(\.1).map(\.0)
    }
}

extension Setting {
    /// A retired setting whose value another one takes over.
    /// - Parameter former: the value that has an effect; nil if each one has.
    fileprivate init(_ path: String, _ binding: Binding, by successor: String, _ value: String, insteadOf former: String? = nil) {
        let condition = former.map { " if it is \($0), else remove it" } ?? ""
        self.init(path: path, binding: binding, help: "", replacement: "use \(successor): \(value)\(condition)", successor: successor)
    }

    fileprivate static func keeping(_ value: String) -> String { "remove it; the default, \(value), stays in effect" }

    /// A retired setting without a successor.
    fileprivate init(_ path: String, _ binding: Binding, _ advice: String) {
        self.init(path: path, binding: binding, help: "", replacement: advice)
    }
}

extension Setting<CisternSettings> {
    /// A retired setting whose default stays in effect.
    fileprivate init(_ path: String, _ binding: Binding, needsRestart: Bool = false) {
        self.init(path: path, binding: binding, help: "", needsRestart: needsRestart)
        replacement = Self.keeping(text(in: CisternSettings()))
    }
}

// Completes the settings of the server and the request flow: converts the texts that have been checked.

import Addresses
import Administration
import CachePolicy
import CacheStore
import Downstream
import Figures
import Forwarding
import HTTPCore
import JSON
import Notifications
import Reactor
import ReverseProxy
import Settings
import Tracing
import Upstream

extension AdminSettings {
    static func socketPath(_ settings: CisternSettings) -> String {
        settings.admin.socket.isEmpty ? ProxySettings.storeDirectory(settings) + "/admin.sock" : settings.admin.socket
    }
}

extension ProxySettings {
    /// - Parameter settings: checked settings.
    init(_ settings: CisternSettings) {
        self = settings.proxy
        // With several APIs, the process settings have no upstream, so the first API's is used.
        let url = settings.apis.first?.settings.upstreamURL ?? settings.upstreamURL
        guard let url = UpstreamURL(url) else { preconditionFailure("settings were used unchecked") }
        (upstream.isTLS, upstream.host, upstream.port, upstream.basePath) = (url.isTLS, url.host, url.port, url.path)
        apis = settings.apis.map { ProxySettings($0) }
        if shards == 0 { shards = UsableCores.count }
        downstream.limitMemory(to: UsableMemory.bytes)
        responseMemoryBytes = min(responseMemoryBytes, UsableMemory.bytes / 4)
        downstream.unsentLimitBytes = settings.memory.unsent ?? downstream.unsentLimitBytes
        downstream.requestBuffersBytes = settings.memory.requestBuffers ?? downstream.requestBuffersBytes
        if upstream.failure.recheck == 0 { (upstream.failure.isOn, upstream.failure.recheck) = (false, FailureSettings().recheck) }
        if let probe = HealthCheckText(settings.probe) {
            background.probe.path = probe.path
            background.probe.interval = .milliseconds(probe.interval)
            background.probe.status = Status(rawValue: UInt16(probe.status))
        }
        policy.strictness = settings.cache.policy == .rescue ? .rescue : .strict
        policy.contentTypes = ContentTypes(settings.cache.contentTypes)
        policy.harmlessFields = HarmlessFields.changed(policy.harmlessFields, by: settings.cache.harmlessFields)
        policy.lowercaseNames()
        forwarding.lowercaseNames()
        takeListening(settings)
        tracing.endpoint = TracingSettings.endpoint(tracing.endpoint) ?? ""
        notify = settings.notify.map { NotificationTarget($0) }
        store = StoreSettings(directory: Self.storeDirectory(settings), capacityBytes: settings.store.size)
        store?.isRequired = settings.store.required
        store?.noteMilliseconds = settings.store.confirmInterval
        routes = settings.routes.map { Route($0) }
        otherRoute = Route(settings.otherRoute)
        version = Version.text
        hash = settings.hash
    }

    /// Converts listeners, and the permissions of their clients.
    private mutating func takeListening(_ settings: CisternSettings) {
        listening.listeners = settings.listen.compactMap { ListenerSettings($0) }
        listening.adminListeners = settings.adminListen.compactMap { ListenerSettings($0) }
        listening.tls = ServerTLSSettings(settings)
        downstream.trustedProxies = NetworkList(checked: settings.trustedProxies)
        access.names = ServedNames(settings.servedNames)
        access.rules = AddressRules(settings.access)
        admin.socket = settings.admin.socket == "off" ? nil : AdminSettings.socketPath(settings)
        admin.names = ServedNames(settings.admin.names)
        ownFields.allowsWhy = settings.admin.debugFields.contains("why")
        ownFields.allowsKey = settings.admin.debugFields.contains("key")
        ownFields.allowsMode = settings.admin.debugFields.contains("mode")
        admin.isSocketRequired = !settings.admin.socket.isEmpty
        if !settings.admin.tokenFile.isEmpty { admin.token = FileContent.read(settings.admin.tokenFile).flatMap(AdminToken.parse) }
    }

    private init(_ api: CisternSettings.API) {
        self.init(api.settings)
        upstream.fallbacks = api.upstream.dropFirst().compactMap { UpstreamURL($0) }.map {
            UpstreamAddress(isTLS: $0.isTLS, host: $0.host, port: $0.port, basePath: $0.path)
        }
        apiName = api.name
        scope.names = ServedNames(api.host)
        scope.path = api.pathBytes
        scope.isStripped = api.stripPath
        // The API accepts only requests for its own hosts.
        if !api.host.isEmpty { access.names = scope.names }
    }

    /// Empty if there is no directory, which `StartCheck.checkDefaultDirectory` rejects.
    static func storeDirectory(_ settings: CisternSettings) -> String {
        settings.store.directory.isEmpty ? defaultDirectory ?? "" : settings.store.directory
    }

    /// The user's cache directory (XDG Base Directory Specification); nil if the environment names none. A directory shared by all users
    /// would be unsafe.
    static var defaultDirectory: String? {
        let environment = Environment.all()
        if let base = environment["XDG_CACHE_HOME"], base.hasPrefix("/") { return base + "/cistern" }
        return environment["HOME"].flatMap { $0.hasPrefix("/") ? $0 + "/.cache/cistern" : nil }
    }
}

extension Route {
    /// - Parameter settings: checked settings.
    fileprivate init(_ settings: CisternSettings.Route) {
        self = settings.rules
        if !settings.path.isEmpty { pattern = RoutePattern(settings.path) }
        access = AddressRules(settings.access)
        methods = settings.methods.map { Method(Array($0.utf8).span) }
        upgrades = settings.upgrade.map { Array($0.lowercased().utf8) }
        crossOrigin.fields = crossOrigin.fields.map { $0.map(\.asciiLowercased) }
        arguments.ignore = settings.arguments.ignore.map { ArgumentPattern($0) }
        arguments.only = settings.arguments.only.map { ArgumentPattern($0) }
        arguments.drop = settings.arguments.drop.map { ArgumentPattern($0) }
        good.take(settings.good)
        kept.take(settings.keepIf)
        freshness = FreshnessRules(settings.freshness)
        upstreamFields = UpstreamFieldRules(settings.upstreamFields)
    }
}

extension GoodResponse {
    /// - Parameter settings: checked settings.
    fileprivate mutating func take(_ settings: CisternSettings.Demands) {
        contentTypes = ContentTypes(settings.contentTypes)
        mustHave = settings.mustHave.compactMap { JSONPointer($0) }
        mustNotHave = settings.mustNotHave.compactMap { JSONPointer($0) }
    }
}

extension FreshnessRules {
    /// - Parameter settings: checked settings.
    fileprivate init(_ settings: CisternSettings.Freshness) {
        self.init()
        let seconds = { (milliseconds: Int) -> Int64? in milliseconds == 0 ? nil : Int64((milliseconds + 999) / 1000) }
        standard = seconds(settings.standard)
        minimum = seconds(settings.minimum)
        maximum = seconds(settings.maximum)
        ignored = Set(settings.ignore.compactMap { IgnoredDirective(rawValue: $0) })
        staleFor = seconds(settings.staleFor)
        staleWhileRevalidate = seconds(settings.staleWhileRevalidate)
        negative = seconds(settings.negative) ?? 0
        negativeStatuses = settings.negativeStatuses.compactMap { UInt16($0) }
    }
}

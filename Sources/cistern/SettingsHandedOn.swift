// Converts checked settings to the types of the server and the request flow.

import Addresses
import Administration
import CachePolicy
import CacheStore
import Downstream
import Figures
import Forwarding
import HTTPCore
import Identity
import JSON
import Reactor
import ReverseProxy
import Settings
import Sharing
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
        // With several APIs, the process settings have no upstream, so the first API's is used.
        let url = settings.apis.first?.settings.upstream.url ?? settings.upstream.url
        guard let url = UpstreamURL(url) else { preconditionFailure("settings were used unchecked") }
        self.init(upstream: UpstreamSettings(settings, url))
        apis = settings.apis.map { ProxySettings($0) }
        shards = settings.shards > 0 ? settings.shards : UsableCores.count
        downstream = DownstreamSettings(settings)
        takePolicy(settings.cache)
        takeForwarding(settings)
        takeListening(settings)
        tracing.endpoint = TracingSettings.endpoint(settings.tracing.endpoint) ?? ""
        (tracing.samplePerMillion, tracing.limit) = (settings.tracing.sample, settings.tracing.limit)
        tracing.serviceName = settings.tracing.serviceName
        fleet = FleetSettings(settings.share)
        access = AccessSettings(settings)
        store = StoreSettings(directory: Self.storeDirectory(settings), capacityBytes: settings.store.size)
        store?.isRequired = settings.store.required
        mode = ServingMode(rawValue: settings.cache.mode) ?? .live
        content.compressFromBytes = settings.cache.compressFrom
        content.recodedBytes = settings.cache.recodedMemory
        content.bufferLimitBytes = settings.cache.bufferLimit
        routes = settings.routes.map { Route($0) }
        otherRoute = Route(CisternSettings.Route(settings))
        remembersGone = settings.cache.gone == "remember"
        collapsing.wait = Int64(settings.cache.collapseWait)
        background.limit = settings.cache.backgroundLimit
        if let probe = HealthCheckText(settings.failure.probe) {
            background.probe.path = probe.path
            background.probe.interval = .milliseconds(probe.interval)
            background.probe.status = Status(rawValue: UInt16(probe.status))
        }
        version = Version.text
        hash = settings.hash
    }

    private mutating func takePolicy(_ cache: CisternSettings.Cache) {
        policy.strictness = cache.policy == "rescue" ? .rescue : .strict
        policy.keepsAny = cache.store == "any"
        policy.keepsAnyError = cache.storeErrors == "letter"
        policy.isPrivate = cache.role == "private"
        policy.heuristicPercent = Int64(cache.heuristics)
        policy.targetedFields = cache.targetedFields.map { Array($0.lowercased().utf8) }
        policy.stripsTargetedFields = cache.stripTargetedFields
        policy.usesNoVarySearch = cache.noVarySearch
        policy.memberLimit = cache.memberLimit
        policy.makesEntityTags = cache.entityTags
        policy.reading = cache.json == "lenient" ? .extensions : .otherBytes
        policy.setCookie = SetCookieTreatment(rawValue: cache.setCookie) ?? .strip
        policy.contentTypes = ContentTypes(cache.contentTypes)
        policy.credentials.fields = cache.credentialFields.map { $0.lowercased() }
        policy.credentials.groupFields = cache.groupCredentials.map { $0.lowercased() }
        policy.credentials.cookies = cache.credentialCookies
        policy.credentials.ignoredCookies = cache.ignoredCookies
        policy.keyFields = cache.keyFields.map { $0.lowercased() }
        policy.harmlessFields = HarmlessFields.changed(CachePolicySettings().harmlessFields, by: cache.harmlessFields)
    }

    private mutating func takeForwarding(_ settings: CisternSettings) {
        forwarding.name = settings.forwarding.name
        forwarding.forwarded = ForwardedPolicy(rawValue: settings.forwarding.forwarded) ?? .replace
        (forwarding.forwardHost, forwarding.via) = (settings.forwarding.forwardHost, settings.forwarding.via)
        forwarding.requestID = RequestIDUse(rawValue: settings.log.requestID) ?? .off
        (forwarding.preserveHost, forwarding.rewriteLocation) = (settings.forwarding.preserveHost, settings.forwarding.rewriteLocation)
        forwarding.addressFields = settings.forwarding.addressFields.map { $0.lowercased() }
        forwarding.identityFields = settings.forwarding.identityFields.map { $0.lowercased() }
        forwarding.overrideFields = settings.forwarding.overrideFields.map { $0.lowercased() }
    }

    /// Converts listeners, and the permissions of their clients.
    private mutating func takeListening(_ settings: CisternSettings) {
        listening.listeners = settings.listen.compactMap { ListenerSettings($0) }
        listening.adminListeners = settings.adminListen.compactMap { ListenerSettings($0) }
        listening.tls = ServerTLSSettings(settings)
        listening.challengeDirectory = settings.tls.acmeChallenges.isEmpty ? nil : settings.tls.acmeChallenges
        listening.servesOwnPages = settings.ownPages
        admin.socket = settings.admin.socket == "off" ? nil : AdminSettings.socketPath(settings)
        admin.names = ServedNames(settings.admin.names)
        admin.allowsFaults = settings.admin.faults
        records = settings.admin.records
        admin.isSocketRequired = !settings.admin.socket.isEmpty
        if !settings.admin.tokenFile.isEmpty { admin.token = FileContent.read(settings.admin.tokenFile).flatMap(AdminToken.parse) }
        ownFields.allowsWhy = settings.admin.debugFields.contains("why")
        ownFields.allowsKey = settings.admin.debugFields.contains("key")
        ownFields.allowsMode = settings.admin.debugFields.contains("mode")
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

extension UpstreamSettings {
    fileprivate init(_ settings: CisternSettings, _ url: UpstreamURL) {
        self.init(host: url.host, port: url.port)
        let upstream = settings.upstream
        let given = { (text: String) -> String? in text.isEmpty ? nil : text }
        isTLS = url.isTLS
        basePath = url.path
        unixSocket = given(upstream.unixSocket)
        http2 = HTTP2Use(rawValue: upstream.http2) ?? .auto
        proxy = given(upstream.proxy)
        caFile = given(upstream.caFile)
        clientCertificate = given(upstream.clientCertificate)
        clientKey = given(upstream.clientKey)
        verify = upstream.verify
        connectTimeout = .milliseconds(upstream.connectTimeout)
        firstByteTimeout = .milliseconds(upstream.firstByteTimeout)
        betweenBytesTimeout = .milliseconds(upstream.betweenBytesTimeout)
        totalTimeout = .milliseconds(upstream.totalTimeout)
        streamTimeout = .milliseconds(settings.timeouts.stream)
        maximumConnections = upstream.connections
        queueLimit = upstream.queue
        idleForWrites = .milliseconds(upstream.idleForWrites)
        resolveInterval = .milliseconds(upstream.resolveInterval)
        retryBudget = upstream.retryBudget
        failure = FailureSettings(settings.failure)
    }
}

extension FailureSettings {
    fileprivate init(_ settings: CisternSettings.Failure) {
        self.init()
        isOn = settings.recheck > 0
        threshold = settings.threshold
        window = Int64(settings.window)
        if isOn { recheck = Int64(settings.recheck) }
        retryAfterLimit = Int64(settings.retryAfterLimit)
    }
}

extension Route {
    /// - Parameter settings: checked settings.
    fileprivate init(_ settings: CisternSettings.Route) {
        self.init()
        name = settings.name
        if !settings.path.isEmpty { pattern = RoutePattern(settings.path) }
        mode = ServingMode(rawValue: settings.mode)
        access = AddressRules(settings.access)
        needsCertificate = settings.clientCertificate
        compression = Compression(rawValue: settings.compress) ?? .gzip
        rescueAfter = Int64(settings.rescueAfter)
        rescueWithShared = RescueWithShared(rawValue: settings.rescueWithShared) ?? .own
        refreshAhead = settings.refreshAhead
        refreshAheadHits = settings.refreshAheadHits
        methods = settings.methods.map { Method(Array($0.utf8).span) }
        contentLimitBytes = settings.contentLimit
        invalidatesTarget = settings.invalidatesTarget
        invalidatesCollection = settings.invalidatesCollection
        streams = settings.stream
        upgrades = settings.upgrade.map { Array($0.lowercased().utf8) }
        crossOrigin = CrossOriginRules(settings.crossOrigin)
        arguments.sorts = settings.arguments.sort
        arguments.ignore = settings.arguments.ignore.map { ArgumentPattern($0) }
        arguments.only = settings.arguments.only.map { ArgumentPattern($0) }
        arguments.drop = settings.arguments.drop.map { ArgumentPattern($0) }
        arguments.ignoresCase = settings.arguments.ignoreCase
        credentials.areIgnored = settings.credentials.partition == "ignore"
        credentials.sharesPublic = settings.credentials.sharePublic
        tokens = RouteTokens(settings.credentials.identity.jwt)
        lookUp = LookUpSettings(settings.credentials.identity.lookup)
        (good, kept) = (GoodResponse(settings.good), GoodResponse(settings.keepIf))
        freshness = FreshnessRules(settings.freshness)
        obeysClients = settings.freshness.clientDirectives == "obey"
    }
}

extension GoodResponse {
    /// - Parameter settings: checked settings.
    fileprivate init(_ settings: CisternSettings.LastGood) {
        self.init()
        contentTypes = ContentTypes(settings.contentTypes)
        (minimumBytes, maximumBytes) = (settings.minimumBytes, settings.maximumBytes)
        mustHave = settings.mustHave.compactMap { JSONPointer($0) }
        mustNotHave = settings.mustNotHave.compactMap { JSONPointer($0) }
        shrinkLimit = settings.shrinkLimit
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

extension DownstreamSettings {
    fileprivate init(_ settings: CisternSettings) {
        self.init()
        requestLimits.targetBytes = settings.limits.target
        requestLimits.headBytes = settings.limits.head
        requestLimits.fieldCount = settings.limits.fields
        contentLimitBytes = settings.limits.content
        requestBufferBytes = settings.limits.requestBuffer
        requestBuffersBytes = settings.limits.requestBuffers
        maximumConnections = settings.limits.connections
        connectionsPerAddress = settings.limits.connectionsPerAddress
        trustedProxies = NetworkList(checked: settings.trustedProxies)
        unsentLimitBytes = settings.limits.unsent
        requestsPerConnection = settings.limits.requestsPerConnection
        http2.streams = settings.http2.streams
        http2.controlFrames = settings.http2.controlFrames
        http2.resets = settings.http2.resets
        headTimeout = .milliseconds(settings.timeouts.head)
        keepAliveTimeout = .milliseconds(settings.timeouts.keepAlive)
        contentTimeout = .milliseconds(settings.timeouts.content)
        contentTotal = .milliseconds(settings.timeouts.contentTotal)
        writeTimeout = .milliseconds(settings.timeouts.write)
    }
}

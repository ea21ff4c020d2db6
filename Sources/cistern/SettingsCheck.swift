// Checks settings that depend on each other, or on files.

import Administration
import CachePolicy
import Downstream
import Figures
import Forwarding
import Glibc
import HTTPCore
import JSON
import Reactor
import ReverseProxy
import Settings
import Tracing
import Upstream

enum SettingsCheck {
    static func check(_ reader: inout SettingsReader) {
        UpstreamFieldsCheck.check(&reader)
        let settings = reader.settings
        if settings.apis.isEmpty {
            checkURL(settings.upstreamURL, &reader)
            checkLoop(settings.upstreamURL, &reader)
        } else {
            APIsCheck.check(&reader)
        }
        APIsCheck.checkForwardProxy(&reader)
        checkAddresses(&reader)
        checkAPI(&reader)
        CertificatesCheck.check(&reader)
        SharingCheck.check(&reader)
        NotifyCheck.check(&reader)
        for api in settings.apis {
            var own = reader.reader(of: api)
            for url in api.upstream {
                checkURL(url, &own)
                checkLoop(url, &own)
            }
            checkAPI(&own)
            reader.take(own.mistakes, ofAPI: api.name)
        }
    }

    private static func checkURL(_ url: String, _ reader: inout SettingsReader) {
        guard !url.isEmpty else {
            guard reader.isComplete else { return }
            return reader.add(
                about: "upstream.url",
                "upstream.url is missing: pass the URL as an argument or with --upstream, or set upstream.url or apis in the file")
        }
        do throws(UpstreamURL.Mistake) {
            _ = try UpstreamURL(checking: url)
        } catch {
            reader.add(about: "upstream.url", "upstream.url \(error.clause)")
        }
    }

    /// Checks settings that an API may override.
    private static func checkAPI(_ reader: inout SettingsReader) {
        checkUpstream(&reader)
        checkWords(&reader)
        checkRoutes(&reader)
        checkFreshness(&reader)
        checkCrossOrigin(&reader)
        CredentialsCheck.check(&reader)
        SharingCheck.checkAPI(&reader)
        AccessCheck.check(&reader)
        checkFiles(&reader)
    }

    private static func checkUpstream(_ reader: inout SettingsReader) {
        let upstream = reader.settings.proxy.upstream
        if let sentence = AddressMistake.tooLong("unix:" + (upstream.unixSocket ?? "")) {
            reader.add(about: "upstream.unix_socket", "upstream.unix_socket: \(sentence)")
        }
        let proxy = upstream.proxy?.lowercased() ?? ""
        let isAskedThroughProxy = !proxy.isEmpty && !proxy.hasPrefix("socks") && UpstreamURL(reader.settings.upstreamURL)?.isTLS == false
        if upstream.http2 == .priorKnowledge, isAskedThroughProxy {
            reader.add(
                about: "upstream.http2",
                "upstream.http2: prior-knowledge is not possible for http URLs through upstream.proxy, because forward proxies use HTTP/1.1"
            )
        }
        let schemes = ["http", "socks4", "socks4a", "socks5", "socks5h"]
        if let end = proxy.firstRange(of: "://"), !schemes.contains(String(proxy[..<end.lowerBound])) {
            reader.add(
                about: "upstream.proxy", "upstream.proxy must be an http or socks URL: TLS to the forward proxy is not supported")
        }
    }

    private static func checkAddresses(_ reader: inout SettingsReader) {
        let settings = reader.settings
        if settings.listen.isEmpty { reader.add(about: "listen", "listen must name at least one address") }
        var seen: Set<String> = []
        for (name, listeners) in [("listen", settings.listen), ("admin_listen", settings.adminListen)] {
            for listener in listeners {
                guard let address = ListenerSettings(listener)?.address else {
                    if let sentence = AddressMistake.sentence(listener.address) { reader.add(about: name, "\(name): \(sentence)") }
                    continue
                }
                if case .ipv4(_, 0) = address { continue }
                if case .ipv6(_, 0) = address { continue }
                if !seen.insert("\(address)").inserted { reader.add(about: name, "\(name): \(address) is listed twice") }
            }
        }
        if settings.admin.socket != "off", let sentence = AddressMistake.tooLong("unix:" + AdminSettings.socketPath(settings)) {
            reader.add(about: "admin.socket", "admin.socket: \(sentence); set admin.socket to a shorter path, or to off")
        }
    }

    /// An upstream that is a listener of this process would cause an endless loop of requests.
    private static func checkLoop(_ url: String, _ reader: inout SettingsReader) {
        let settings = reader.settings.proxy.upstream
        guard let url = UpstreamURL(url), settings.proxy == nil else { return }
        for listener in reader.settings.listen {
            guard let address = ListenerSettings(listener)?.address else { continue }
            let isLoop = settings.unixSocket.map { address == .unix(path: $0) } ?? (address.port == url.port && isOwn(url.host, address))
            guard isLoop else { continue }
            let name = settings.unixSocket == nil ? "upstream.url" : "upstream.unix_socket"
            reader.add(about: name, "\(name): Cistern itself listens on \(address), so requests would loop: set the API's address")
        }
    }

    /// Whether connections to a host arrive at a listener of the right port.
    private static func isOwn(_ host: String, _ listener: ListenAddress) -> Bool {
        let name = host.lowercased()
        if case .ipv4(name, _) = listener { return true }
        if case .ipv6(name, _) = listener { return true }
        let isIPv4 = name == "localhost" || name.hasPrefix("127.") || name == "0.0.0.0"
        let isIPv6 = name == "localhost" || name == "::1" || name == "::"
        switch listener {
        case .ipv4(let own, _): return isIPv4 && (listener.isWildcard || name == "localhost" && own == "127.0.0.1")
        case .ipv6(let own, _): return isIPv6 && (listener.isWildcard || name == "localhost" && own == "::1")
        case .unix, .activated: return false
        }
    }

    private static func checkWords(_ reader: inout SettingsReader) {
        let settings = reader.settings
        let policy = settings.proxy.policy
        let isToken = { (text: String) in !text.isEmpty && text.utf8.allSatisfy(isTokenByte) }
        if !isToken(settings.proxy.forwarding.name) {
            reader.add(about: "forwarding.name", "forwarding.name must be one word of letters, digits, - and _")
        }
        if !settings.probe.isEmpty, HealthCheckText(settings.probe) == nil {
            reader.add(
                about: "failure.probe", "failure.probe must be \(HealthCheckText.form), not \"\(settings.probe)\"")
        }
        if (1..<10).contains(settings.proxy.upstream.failure.recheck) {
            reader.add(
                about: "failure.recheck", "failure.recheck must be 0 or at least 10ms, not \(settings.proxy.upstream.failure.recheck)ms")
        }
        for word in settings.admin.debugFields where !["why", "key", "mode"].contains(word) {
            reader.add(about: "admin.debug_fields", "admin.debug_fields: \"\(word)\" is none of why, key, mode")
        }
        for (name, fields) in [
            ("cache.targeted_fields", policy.targetedFields.map { String(decoding: $0, as: UTF8.self) }),
            ("cache.credential_fields", policy.credentials.fields),
            ("cache.group_credentials", policy.credentials.groupFields), ("cache.key_fields", policy.keyFields),
            ("forwarding.override_fields", settings.proxy.forwarding.overrideFields),
            ("forwarding.address_fields", settings.proxy.forwarding.addressFields),
            ("forwarding.identity_fields", settings.proxy.forwarding.identityFields),
        ] {
            for field in fields where !isToken(field) { reader.add(about: name, "\(name): \"\(field)\" is not a field name") }
        }
        for (name, fields) in [
            ("cache.credential_fields", policy.credentials.fields), ("cache.group_credentials", policy.credentials.groupFields),
        ] {
            for field in fields where field == "*" || field.dropFirst().contains("*") {
                reader.add(about: name, "\(name): \"\(field)\" is not a field name, nor * followed by the end of one")
            }
        }
        for change in settings.cache.harmlessFields where !"+-".contains(change.first ?? " ") || !isToken(String(change.dropFirst())) {
            reader.add(about: "cache.harmless_fields", "cache.harmless_fields: \"\(change)\" is not + or - followed by a field name")
        }
        let credentials = CredentialNames(policy.credentials.fields.map { $0.lowercased() })
        for change in settings.cache.harmlessFields where change.first == "+" && credentials.contains(Array(change.dropFirst().utf8)) {
            let name = change.dropFirst()
            reader.add(
                about: "cache.harmless_fields",
                "cache.harmless_fields: \(name) is in cache.credential_fields, so it cannot be harmless: remove it there first"
            )
        }
        for (name, patterns) in [
            ("cache.credential_cookies", policy.credentials.cookies), ("cache.ignored_cookies", policy.credentials.ignoredCookies),
        ] {
            for pattern in patterns where !CookiePattern.isPattern(pattern) {
                reader.add(about: name, "\(name): \"\(pattern)\" is not \(CookiePattern.form)")
            }
        }
        for type in settings.cache.contentTypes where !ContentTypes.isPattern(type) {
            reader.add(about: "cache.content_types", "cache.content_types: \"\(type)\" is not \(ContentTypes.forms)")
        }
        if let all = settings.memory.requestBuffers, all < settings.proxy.downstream.requestBufferBytes {
            reader.add(
                about: "limits.request_buffers",
                "limits.request_buffers, for all requests, must not be less than limits.request_buffer, for one request")
        }
        if policy.keepsAnyError, !policy.keepsAny {
            reader.add(about: "cache.store_errors", "cache.store_errors: letter needs cache.store: any, because json stores no errors")
        }
        if settings.log.access.isEmpty { reader.add(about: "log.access", "log.access must be off, stdout or a file") }
        if !settings.proxy.tracing.endpoint.isEmpty, TracingSettings.endpoint(settings.proxy.tracing.endpoint) == nil {
            reader.add(about: "tracing.endpoint", "tracing.endpoint must be an http or https URL, such as http://127.0.0.1:4318")
        }
        if settings.proxy.tracing.serviceName.isEmpty {
            reader.add(about: "tracing.service_name", "tracing.service_name must not be empty")
        }
        var seen: Set<String> = []
        for field in settings.log.accessFields {
            if AccessField(rawValue: field) == nil {
                let all = AccessField.allCases.map(\.rawValue).joined(separator: ", ")
                reader.add(about: "log.access_fields", "log.access_fields: \"\(field)\" is none of \(all)")
            } else if !seen.insert(field).inserted {
                reader.add(about: "log.access_fields", "log.access_fields: \(field) is named twice")
            }
        }
    }

    /// Warnings about permitted settings that may not have the intended effect.
    static func warnings(_ settings: CisternSettings) -> [String] {
        AccessCheck.warnings(settings) + SecretFiles.warnings(settings) + SharingCheck.warnings(settings) + routeWarnings(settings)
    }

    /// Routes that no request reaches.
    private static func routeWarnings(_ settings: CisternSettings) -> [String] {
        unreached(settings.routes, "") + settings.apis.flatMap { unreached($0.settings.routes, "API \($0.name): ") }
    }

    private static func unreached(_ routes: [CisternSettings.Route], _ subject: String) -> [String] {
        let patterns = routes.map { RoutePattern($0.path) }
        return routes.enumerated().compactMap { index, route in
            let start = "\(subject)route \(route.name): no request reaches it"
            if route.path.contains("?") || route.path.contains("#") { return start + ": its path must not contain arguments (? or #)" }
            guard let earlier = patterns[..<index].firstIndex(where: { $0.covers(patterns[index]) }).map({ routes[$0] }) else { return nil }
            return start + ": route \(earlier.name) before it matches the same paths (\(earlier.path)): put it after this one"
        }
    }

    private static func checkRoutes(_ reader: inout SettingsReader) {
        for route in reader.settings.routes {
            let report = { (reader: inout SettingsReader, path: String, sentence: String) in
                reader.add(about: "routes.\(route.name).\(path)", "route \(route.name): \(sentence)")
            }
            for method in route.methods where method != "POST" && method != "QUERY" {
                report(&reader, "methods", "methods can be POST and QUERY, not \"\(method)\"")
            }
            for name in route.upgrade {
                let isName = !name.isEmpty && name.utf8.allSatisfy(isTokenByte)
                if !isName { report(&reader, "upgrade", "\"\(name)\" is not a protocol's name, such as websocket") }
                if ["h2c", "http", "tls"].contains(name.lowercased()) {
                    report(&reader, "upgrade", "upgrade cannot be \(name), because its requests would bypass all checks")
                }
            }
            for (group, demands) in [("good", route.good), ("keep_if", route.keepIf)] {
                for (path, pointers) in [("must_have", demands.mustHave), ("must_not_have", demands.mustNotHave)] {
                    for pointer in pointers where JSONPointer(pointer) == nil {
                        report(&reader, "\(group).\(path)", "\"\(pointer)\" is not a JSON Pointer, such as /items/0/id")
                    }
                }
                for type in demands.contentTypes where !ContentTypes.isPattern(type) {
                    report(&reader, "\(group).content_types", "\"\(type)\" is not \(ContentTypes.forms)")
                }
            }
        }
    }

    private static func checkFreshness(_ reader: inout SettingsReader) {
        let settings = reader.settings
        checkFreshness(settings.otherRoute.freshness, "cache.") { name, sentence in
            reader.add(about: "cache.\(name)", "cache.\(name)\(sentence)")
        }
        for route in settings.routes where route.freshness != settings.otherRoute.freshness {
            checkFreshness(route.freshness, "") { name, sentence in
                reader.add(about: "routes.\(route.name).\(name)", "route \(route.name): \(name)\(sentence)")
            }
        }
    }

    private static func checkFreshness(
        _ freshness: CisternSettings.Freshness, _ prefix: String, _ report: (_ name: String, _ sentence: String) -> Void
    ) {
        for word in freshness.ignore where IgnoredDirective(rawValue: word) == nil {
            let known = IgnoredDirective.allCases.map(\.rawValue).joined(separator: ", ")
            report("freshness.ignore", ": \"\(word)\" is none of \(known)")
        }
        if freshness.maximum > 0, freshness.minimum > freshness.maximum {
            report("freshness.minimum", " must not be more than \(prefix)freshness.maximum")
        }
        for word in freshness.negativeStatuses where UInt16(word).map(FreshnessRules.mayBeNegative) != true {
            report(
                "negative_statuses",
                ": \"\(word)\" must be a status from 400 to 599 that describes the resource, such as 404 or 410, not the request, such as 401 or 429"
            )
        }
    }

    private static func checkFiles(_ reader: inout SettingsReader) {
        let settings = reader.settings
        let upstream = settings.proxy.upstream
        if (upstream.clientCertificate == nil) != (upstream.clientKey == nil) {
            let given = upstream.clientKey == nil ? "upstream.client_certificate" : "upstream.client_key"
            reader.add(about: given, "upstream.client_certificate and upstream.client_key must both be set")
        }
        let mistakes = reader.mistakes.count
        for (name, file) in [
            ("upstream.ca_file", upstream.caFile), ("upstream.client_certificate", upstream.clientCertificate),
            ("upstream.client_key", upstream.clientKey),
            ("admin.token_file", settings.admin.tokenFile.isEmpty ? nil : settings.admin.tokenFile),
        ] {
            if let file, let reason = SystemError.whyUnreadable(file) { reader.add(about: name, "\(name): \(reason)") }
        }
        if reader.mistakes.count == mistakes {
            for (name, reason) in upstream.unusableTLSFiles { reader.add(about: name, "\(name): \(reason)") }
        }
        let token = settings.admin.tokenFile
        if !token.isEmpty, SystemError.whyUnreadable(token) == nil, FileContent.read(token).flatMap(AdminToken.parse) == nil {
            reader.add(
                about: "admin.token_file",
                "admin.token_file: \(token) must contain one word of at least \(AdminToken.shortest) letters and digits")
        }
    }
}

/// The bearer token of the admin interface.
enum AdminToken {
    static let shortest = 16

    /// The only word of the file; nil if it is too short to be safe, or not a token (RFC 6750 §2.1).
    static func parse(_ text: [UInt8]) -> [UInt8]? {
        NotifyCheck.word(text).flatMap { $0.count >= shortest ? $0 : nil }
    }
}

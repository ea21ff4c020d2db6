// Checks that involve all APIs: their number, their scopes and their upstreams.

import Addresses
import CachePolicy
import ReverseProxy
import Settings
import Upstream

enum APIsCheck {
    /// Maximum number of APIs. More would make the selection per request slow.
    private static let limit = 256

    static func check(_ reader: inout SettingsReader) {
        let settings = reader.settings
        if !settings.upstreamURL.isEmpty {
            reader.add(about: "upstream.url", "upstream.url and apis exclude each other: remove upstream.url, and set upstream of each API")
        }
        if !settings.routes.isEmpty {
            reader.add(about: "routes", "routes and apis exclude each other: move the routes into the APIs")
        }
        if settings.apis.count > limit { reader.add(about: "apis", "apis has \(settings.apis.count) entries; the maximum is \(limit)") }
        checkScopes(settings.apis, &reader)
        for api in settings.apis {
            checkNames(api, settings, &reader)
            checkRoutes(api, &reader)
            checkAddresses(api, &reader)
        }
    }

    /// With different paths of clients and upstream, the upstream's host name cannot identify the API in a request with an absolute URI.
    static func checkForwardProxy(_ reader: inout SettingsReader) {
        let settings = reader.settings
        guard settings.proxy.access.isForwardProxy, settings.servedNames.isEmpty else { return }
        func hasPath(_ urls: [String]) -> Bool { urls.contains { UpstreamURL($0)?.path.isEmpty == false } }
        let reason =
            "because its paths differ from the upstream's, so the upstream's host name cannot identify it"
        if settings.apis.isEmpty, hasPath([settings.upstreamURL]) {
            reader.add(about: "forwarding.forward_proxy", "forwarding.forward_proxy needs forwarding.names, \(reason)")
        }
        for api in settings.apis where api.host.isEmpty && (api.stripPath || hasPath(api.upstream)) {
            reader.add(about: "apis.\(api.name).", "API \(api.name): forwarding.forward_proxy needs a host, \(reason)")
        }
    }

    /// Reports combinations of host and path that belong to more than one API. Hosts are compared in canonical form.
    private static func checkScopes(_ apis: [CisternSettings.API], _ reader: inout SettingsReader) {
        struct Scope: Hashable {
            let names: ServedNames
            let path: [UInt8]
        }
        var owners: [Scope: String] = [:]
        for api in apis {
            let settingPath = "apis.\(api.name)."
            for host in api.host where !ServedNames.isName(host) {
                reader.add(about: settingPath + "host", "API \(api.name): host \"\(host)\" is not \(ServedNames.form)")
            }
            for host in api.host.isEmpty ? [nil] : api.host.map(Optional.some) {
                let scope = Scope(names: ServedNames(host.map { [$0] } ?? []), path: api.pathBytes)
                switch owners[scope] {
                case nil: owners[scope] = api.name
                case api.name?: reader.add(about: settingPath + "host", "API \(api.name): host names \(host ?? "") twice")
                case let other?:
                    let of = host.map { "\($0) " } ?? ""
                    reader.add(
                        about: settingPath,
                        "API \(api.name): \(other) has the same host and path, so no request for \(of)would reach this API: change one of them"
                    )
                }
            }
        }
    }

    /// Reports an API without hosts that receives no requests, because other APIs have all hosts of `forwarding.names`.
    private static func checkNames(_ api: CisternSettings.API, _ settings: CisternSettings, _ reader: inout SettingsReader) {
        let names = settings.servedNames
        let taken = settings.apis.filter { !$0.host.isEmpty }.map { ServedNames($0.host) }
        guard api.host.isEmpty, !names.isEmpty, names.allSatisfy({ name in taken.contains { $0.contains(Array(name.utf8)[...]) } }) else {
            return
        }
        reader.add(
            about: "apis.\(api.name).",
            "API \(api.name) gets no requests: it has no host, and other APIs have all hosts of forwarding.names")
    }

    private static func checkRoutes(_ api: CisternSettings.API, _ reader: inout SettingsReader) {
        for route in api.settings.routes where route.path.hasPrefix("/") && !RoutePattern(route.path).mayMatch(below: api.pathBytes) {
            reader.add(
                about: "apis.\(api.name).routes.\(route.name).path",
                "API \(api.name): route \(route.name): \(route.path) is outside the API's path \(api.path), so no request would match it: "
                    + "a route's path must begin with the API's path")
        }
    }

    /// Reports addresses that share one connection target: for those, it is unknown which address is unreachable.
    private static func checkAddresses(_ api: CisternSettings.API, _ reader: inout SettingsReader) {
        guard api.upstream.count > 1 else { return }
        let settingPath = "apis.\(api.name).upstream"
        if let again = api.upstream.indices.first(where: { api.upstream[..<$0].contains(api.upstream[$0]) }) {
            reader.add(about: settingPath, "API \(api.name): upstream names \(api.upstream[again]) twice")
        }
        let upstream = api.settings.proxy.upstream
        if upstream.unixSocket != nil {
            reader.add(
                about: settingPath,
                "API \(api.name): upstream.unix_socket connects to a single upstream: give one URL")
        }
        let isAskedThroughProxy = upstream.proxy.map { !$0.lowercased().hasPrefix("socks") } ?? false
        if isAskedThroughProxy, api.upstream.contains(where: { UpstreamURL($0)?.isTLS == false }) {
            reader.add(
                about: settingPath,
                "API \(api.name): failover does not work for http URLs through an http forward proxy, because the proxy answers "
                    + "for an unreachable upstream: use https URLs or a socks proxy")
        }
    }
}

extension CisternSettings.API {
    /// Prefix of its paths, without a final slash.
    var pathBytes: [UInt8] {
        var path = Array(path.utf8)
        while path.last == UInt8(ascii: "/") { path.removeLast() }
        return path
    }
}

// What only all APIs together can tell: which requests are for which of them.

import Addresses
import Settings

enum APIsCheck {
    /// More would make each request's choice slow.
    private static let limit = 256

    static func check(_ reader: inout SettingsReader) {
        let settings = reader.settings
        if !settings.upstream.url.isEmpty {
            reader.add(about: "upstream.url", "upstream.url is for one API: where there are apis, each has its own upstream")
        }
        if !settings.routes.isEmpty {
            reader.add(about: "routes", "routes are for one API: where there are apis, each has its own routes")
        }
        if settings.apis.count > limit { reader.add(about: "apis", "there can be \(limit) apis, not \(settings.apis.count)") }
        var scopes: [String: String] = [:]
        for api in settings.apis {
            let place = "apis.\(api.name)."
            for host in api.host where !ServedNames.isName(host) {
                reader.add(about: place + "host", "API \(api.name): host \"\(host)\" is not \(ServedNames.form)")
            }
            for host in api.host.isEmpty ? ["*"] : api.host {
                let scope = host.lowercased() + " " + String(decoding: api.pathBytes, as: UTF8.self)
                if let other = scopes[scope] {
                    reader.add(
                        about: place,
                        "API \(api.name): \(other) is for the same host and path already, so nothing would ever be asked of it")
                }
                scopes[scope] = api.name
            }
        }
    }
}

extension CisternSettings.API {
    /// What its paths begin with, without a slash at the end.
    var pathBytes: [UInt8] {
        var path = Array(path.utf8)
        while path.last == UInt8(ascii: "/") { path.removeLast() }
        return path
    }
}

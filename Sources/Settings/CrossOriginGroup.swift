// Settings of CORS, of all paths and of each route.

import CachePolicy
import ReverseProxy

enum CrossOriginGroup {
    private static let day = 24 * 3_600_000

    static let all: [Setting<CisternSettings.Route>] = [
        Setting(
            path: "cors.origins", binding: .list(\.rules.crossOrigin.origins),
            help:
                "Origins of scripts that may read responses, such as https://app.example.com; * for all. Empty: the upstream's CORS fields apply."
        ),
        Setting(path: "cors.methods", binding: .list(\.rules.crossOrigin.methods), help: "Methods that scripts of these origins may use."),
        Setting(
            path: "cors.fields", binding: .list(\.rules.crossOrigin.fields),
            help: "Request fields that scripts of these origins may set; * for all requested ones."),
        Setting(
            path: "cors.credentials", binding: .flag(\.rules.crossOrigin.allowsCredentials),
            help: "Whether scripts of these origins may send credentials, such as cookies."),
        Setting(
            path: "cors.max_age", binding: .duration(\.rules.crossOrigin.maxAge, 0...day),
            help: "How long browsers may cache a preflight response."),
    ]
}

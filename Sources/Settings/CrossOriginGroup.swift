// Settings of CORS, of all paths and of each route.

import CachePolicy
import ReverseProxy

enum CrossOriginGroup {
    private static let day = 24 * 3_600_000

    static let all: [Setting<CisternSettings.Route>] = [
        Setting(
            path: "cors.origins", binding: .list(\.rules.crossOrigin.origins),
            help: "Origins with permitted scripts, complete: https://app.example.com; * for all. Empty: the upstream's CORS fields apply."),
        Setting(path: "cors.methods", binding: .list(\.rules.crossOrigin.methods), help: "Methods that they may use."),
        Setting(
            path: "cors.fields", binding: .list(\.rules.crossOrigin.fields),
            help: "Request fields that they may set; * for all that are asked for."),
        Setting(
            path: "cors.credentials", binding: .flag(\.rules.crossOrigin.allowsCredentials),
            help: "Whether browsers send cookies with such requests."),
        Setting(
            path: "cors.max_age", binding: .duration(\.rules.crossOrigin.maxAge, 0...day), help: "How long browsers may remember it."),
    ]
}

// `cistern advise`: settings that the traffic of the last hours suggests.

import ArgumentParser
import JSON
import Settings

struct Advise: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Propose settings from the traffic of the last hours, with the evidence and the expected effect.",
        discussion: """
            Cistern observes how often data changes, which arguments and fields make no difference, how long the upstream takes, and what \
            fails. The effect of a freshness lifetime is simulated on these requests. With --freshness, it is shown for a lifetime of your \
            choice. Nothing is changed: copy the lines into the configuration file, and reload.

            Only this node's requests of up to six hours count, and none from before its last restart.

            Examples:
              cistern advise
              cistern advise /users --since 2h
              cistern advise --freshness 45s --route orders
            """)

    @Argument(help: ArgumentHelp("Beginning of the paths to show, such as /users.", valueName: "path"))
    var path: String?

    @Option(help: ArgumentHelp("Show the effect of this freshness lifetime, such as 30s.", valueName: "time"))
    var freshness: String?

    @Option(help: ArgumentHelp("Only paths of this route.", valueName: "name"))
    var route: String?

    @Option(help: ArgumentHelp("Only this long ago, in whole hours, such as 2h.", valueName: "time"))
    var since: String?

    @Flag(help: "JSON.")
    var json = false

    @OptionGroup var api: APIOption
    @OptionGroup var options: AdminOptions

    func validate() throws {
        for (name, text) in [("--freshness", freshness), ("--since", since)] {
            guard let text else { continue }
            guard let time = TimeSpan.parse(text), time >= 1_000 else {
                throw ValidationError(
                    "\(name) must be a time of at least 1s, such as 30s or 2h, not \(text)\(NumberUnit.duration.advice(text)).")
            }
        }
        if let path, !path.hasPrefix("/") { throw ValidationError("The path must begin with /, not \(path)") }
    }

    func run(_ client: AdminClient) throws {
        let seconds = { (text: String?) in text.flatMap(TimeSpan.parse).map { String($0 / 1_000) } }
        let advice = try client.value(
            "GET", "advice",
            [api.argument, ("path", path), ("route", route), ("since", seconds(since)), ("freshness", seconds(freshness))])
        if json { return StandardOutput.write(advice.document) }
        StandardOutput.write(APIOption.text(advice, AdviceText.describe))
    }
}

/// Formats the response. Plain values in, text out.
enum AdviceText {
    private static let pathLimit = 20
    /// Causes with fewer occurrences are not shown.
    private static let causeLimit = 10

    static func describe(_ advice: JSONValue) -> String {
        guard advice["observing"] == true else { return "Traffic is not observed: set admin.observed_paths.\n" }
        let (paths, proposals) = (advice["paths"]?.array ?? [], advice["proposals"]?.array ?? [])
        let (requests, span) = (advice["requests"]?.integer ?? 0, Printable.seconds(advice["seconds"]?.integer ?? 0))
        let requestCount = "\(requests) \(requests == 1 ? "request" : "requests")"
        let pathCount = "\(paths.count) \(paths.count == 1 ? "path" : "paths")"
        var parts = ["Observed on this node: \(requestCount) to the upstream in \(span), on \(pathCount).\n"]
        if let trial = advice["trial"], trial != .null { parts.append(tried(trial)) }
        if advice["trial"] == .null {
            parts.append(proposals.isEmpty ? missing(advice) : proposals.enumerated().map(proposal).joined(separator: "\n"))
            if !proposals.isEmpty {
                let place = advice["api"].map { " for the API \(Printable.text($0.string ?? ""))" } ?? ""
                let lines = (advice["yaml"]?.array ?? []).compactMap(\.string).map { "    " + Printable.text($0) + "\n" }
                parts.append("Nothing was changed. Add these lines to the configuration file\(place), and run cistern reload:\n")
                parts.append(lines.joined())
            }
        }
        if !paths.isEmpty { parts.append(table(paths)) }
        let causes = causes(paths)
        if !causes.isEmpty { parts.append(causes) }
        return parts.joined(separator: "\n")
    }

    private static func text(_ value: JSONValue, _ name: String) -> String { Printable.text(value[name]?.string ?? "") }

    private static func proposal(_ index: Int, _ proposal: JSONValue) -> String {
        let place = text(proposal, "route").isEmpty ? text(proposal, "path") : "route \(text(proposal, "route")), \(text(proposal, "path"))"
        return """
            \(index + 1). \(place): \(text(proposal, "setting")) \(text(proposal, "value"))
               seen    \(text(proposal, "evidence"))
               effect  \(text(proposal, "effect"))

            """
    }

    private static func missing(_ advice: JSONValue) -> String {
        let (requests, seconds) = (advice["needed"]?["requests"]?.integer ?? 0, advice["needed"]?["seconds"]?.integer ?? 0)
        let isMissing = (advice["paths"]?.array ?? []).allSatisfy { $0["missing_evidence"] != .null }
        guard isMissing else { return "No setting is proposed: none would have saved a tenth of a path's requests safely.\n" }
        return "There is too little evidence: a path needs \(requests) requests to the upstream in at least "
            + "\(Printable.seconds(seconds)). Hits do not count.\n"
    }

    private static func table(_ paths: [JSONValue]) -> String {
        var table = TextTable([("PATH", false), ("REQUESTS", true), ("CHANGED", true), ("P95", true), ("NO FRESHNESS, BECAUSE", false)])
        for path in paths.prefix(pathLimit) {
            let wait = path["wait_p95_seconds"]?.double.map { "≤ " + Printable.duration($0) } ?? "-"
            let note = path["obstacle"]?.string ?? path["missing_evidence"]?.string ?? ""
            table.add([
                text(path, "path"), String(path["requests"]?.integer ?? 0), String(path["changed"]?.integer ?? 0), wait, note,
            ])
        }
        return table.text + (paths.count > pathLimit ? "and \(paths.count - pathLimit) more; --json shows all\n" : "")
    }

    private static func causes(_ paths: [JSONValue]) -> String {
        paths.flatMap { path in
            (path["causes"]?.array ?? []).filter { ($0["count"]?.integer ?? 0) >= causeLimit }.map { cause in
                let advice = cause["setting"]?.string.map { "\n  → \($0) \(cause["effect"]?.string ?? "")" } ?? ""
                return "\(text(path, "path")): \(cause["count"]?.integer ?? 0) times \(text(cause, "cause")), \(text(cause, "sentence"))"
                    + advice.split(separator: "\n", omittingEmptySubsequences: false).map { Printable.text(String($0)) }.joined(
                        separator: "\n")
                    + "\n"
            }
        }.joined()
    }

    private static func tried(_ trial: JSONValue) -> String {
        let wanted = trial["freshness_seconds"]?.integer ?? 0
        return (trial["paths"]?.array ?? []).map { path in
            let effects = path["effects"]?.array ?? []
            let isExact = effects.count == 1 && effects[0]["freshness_seconds"]?.integer == wanted
            let head = "\(text(path, "path")) with \(wanted) s" + (isExact ? "" : " (between the simulated lifetimes)") + "\n"
            let obstacle = path["obstacle"]?.string.map { "  not advisable: \(Printable.text($0))\n" } ?? ""
            return head + obstacle
                + effects.map { "  \($0["freshness_seconds"]?.integer ?? 0) s \(text($0, "effect"))\n" }.joined()
        }.joined(separator: "\n")
    }
}

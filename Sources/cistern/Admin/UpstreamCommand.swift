// `cistern upstream`: shows known failures of the upstream, and resets the failure memory.

import ArgumentParser
import JSON

struct UpstreamCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "upstream",
        abstract: "Show or reset the failure memory of the upstream.",
        discussion: """
            address  It cannot be reached.
            upstream Every request fails.
            route    Every request on a configured route fails.
            key      One request fails, with its arguments and its user.
            pause    It asked one client to wait before it sends one request again.

            Examples:
              cistern upstream
              cistern upstream reset
              cistern upstream reset pause
              cistern upstream reset key:/users/1
            """,
        subcommands: [Show.self, Reset.self], defaultSubcommand: Show.self)

    struct Show: AdminCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show each failing scope: since when, why, and which requests are not sent.")

        @Flag(help: "JSON.")
        var json = false

        @OptionGroup var which: APIOption

        @OptionGroup var options: AdminOptions

        func run(_ client: AdminClient) throws {
            let upstream = try client.value("GET", "upstream", [which.argument])
            StandardOutput.write(json ? upstream.document : Array(APIOption.text(upstream, Self.describe).utf8))
        }

        private static func describe(_ upstream: JSONValue) -> String {
            addresses(upstream) + failures(upstream) + lastFailure(upstream)
        }

        /// Table of the addresses; empty if there is only one.
        private static func addresses(_ upstream: JSONValue) -> String {
            let addresses = upstream["addresses"]?.array ?? []
            guard addresses.count > 1 else { return "" }
            let asked = addresses.firstIndex { $0["up"] == true }
            var table = TextTable([("ADDRESS", false), ("STATE", false), ("SINCE", false), ("ERROR", false)])
            for (index, address) in addresses.enumerated() {
                let state = address["up"] == true ? (index == asked ? "asked" : "up") : "DOWN"
                table.add([
                    Printable.text(address["address"]?.string ?? ""), state, address["since"]?.string ?? "-",
                    address["error"]?.string ?? "-",
                ])
            }
            return table.text + "\n"
        }

        private static func failures(_ upstream: JSONValue) -> String {
            let origin = Printable.text(upstream["origin"]?.string ?? "")
            let scopes = upstream["scopes"]?.array ?? []
            var text = "\(origin): \(UpstreamWord.of(upstream))\(details(upstream))\n"
            guard !scopes.isEmpty else { return text }
            text += "\n"
            var table = TextTable([("SCOPE", false), ("PARTITION", false), ("SINCE", false), ("CAUSE", false), ("SETTING", false)])
            for scope in scopes {
                let cause = [scope["cause"]?.string, scope["details"]?.string].compactMap { $0 }.joined(separator: ": ")
                table.add(["scope", "partition", "since"].map { scope[$0]?.string ?? "-" } + [cause, scope["setting"]?.string ?? "-"])
            }
            text += table.text + "\n"
            var shownKinds: [String] = []
            for scope in scopes {
                guard let kind = scope["kind"]?.string, !shownKinds.contains(kind) else { continue }
                shownKinds.append(kind)
                text += "\(kind): \(scope["effect"]?.string ?? "")\n"
                if let advice = scope["advice"]?.string { text += "  → \(Printable.text(advice))\n" }
            }
            return text
        }

        /// The last failure, with the rejected certificate and advice.
        private static func lastFailure(_ upstream: JSONValue) -> String {
            guard let last = upstream["last_failure"], last != .null else { return "" }
            let cause = [last["cause"]?.string, last["details"]?.string].compactMap { $0 }.joined(separator: ": ")
            let path = last["path"]?.string.map { ", on \(Printable.text($0))" } ?? ""
            let end = last["over"] == true ? " (over)" : ""
            var text = "\nlast failure: \(last["time"]?.string ?? "")\(path): \(cause)\(end)\n"
            if let certificate = last["certificate"]?.string { text += "  the certificate is \(Printable.text(certificate))\n" }
            if let advice = last["advice"]?.string { text += "  → \(Printable.text(advice))\n" }
            return text
        }

        /// Start and cause of the current failure.
        private static func details(_ upstream: JSONValue) -> String {
            let (since, cause) = (upstream["since"]?.string, upstream["cause"]?.string)
            var parts = since.map { ["since \($0) (\(cause ?? "unknown cause"))"] } ?? []
            let (responded, attempted) = (upstream["last_response"]?.string, upstream["last_attempt"]?.string)
            if let failures = upstream["failures_in_a_row"]?.integer, failures > 1, since == nil {
                parts.append("the last \(failures) requests failed")
            }
            if attempted == nil { parts.append("not asked yet") } else { parts.append("last good response \(responded ?? "never")") }
            if upstream["was_down"] == true { parts.append("last attempt \(attempted ?? "never"), no request since") }
            if upstream["memory"] == false { parts.append("failures are not remembered (failure.recheck is 0)") }
            return ", " + parts.joined(separator: ", ")
        }
    }

    struct Reset: AdminCommand {
        static let configuration = CommandConfiguration(
            abstract: "Clear the failure memory: all of it, or a scope or kind of scope as `cistern upstream` shows it.")

        @Argument(help: "The scope, or the kind of scope.")
        var scope: String?

        @OptionGroup var which: APIOption

        @OptionGroup var options: AdminOptions

        func run(_ client: AdminClient) throws {
            let count = try client.value("POST", "upstream/reset", [("scope", scope), which.argument])["reset"]?.integer ?? 0
            StandardOutput.write("\(count) \(count == 1 ? "scope" : "scopes") cleared\n")
        }
    }
}

/// The state of an upstream in one word, as commands show it.
enum UpstreamWord {
    /// - Parameter value: has the members `state` and `was_down`.
    static func of(_ value: JSONValue?) -> String {
        let state = value?["state"]?.string ?? "unknown"
        return value?["was_down"] == true ? "UNKNOWN (last: down)" : state == "down" ? "DOWN" : state
    }
}

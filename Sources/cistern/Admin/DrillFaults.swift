// `cistern drill add`, `ls` and `clear`: manages single faults between a running Cistern and its upstream.

import ArgumentParser
import JSON
import Settings
import Upstream

extension Drill {
    struct Add: AdminCommand {
        static let configuration = CommandConfiguration(
            abstract: "Inject a fault.",
            discussion: "It ends after 5 minutes, or after the time of --for. The first matching path applies.")

        @Option(help: ArgumentHelp("Pattern of paths, as in routes: * matches one segment, a final ** any rest.", valueName: "pattern"))
        var path = "/**"

        @Option(help: ArgumentHelp("Delay of the response: 2s, or a random time from 2s to 4s: 2s..4s.", valueName: "time"))
        var delay: String?

        @Flag(help: "Refuse connections.")
        var refuse = false

        @Flag(help: "Reset the connection before the response.")
        var reset = false

        @Option(help: "Respond with this status.")
        var status: Int?

        @Flag(help: "Respond with truncated JSON.")
        var badJSON = false

        @Option(help: ArgumentHelp("body: reset the connection in the middle of the content.", valueName: "what"))
        var cut: CutPart?

        @Option(help: ArgumentHelp("Bytes per second of the response, such as 10KiB.", valueName: "size"))
        var slow: String?

        @Option(help: ArgumentHelp("Percentage of affected requests, such as 20%.", valueName: "percent"))
        var rate = "100%"

        @Option(name: .customLong("for"), help: ArgumentHelp("Duration of the fault, at most 24h.", valueName: "time"))
        var duration = "5m"

        @OptionGroup var options: AdminOptions

        func validate() throws { _ = try query() }

        func run(_ client: AdminClient) throws {
            let added = try client.value("POST", "faults", try query())
            StandardOutput.write("fault \(added["number"]?.integer ?? 0) injected\n" + Drill.describe(added))
        }

        func query() throws -> [(String, String?)] {
            let effects = [
                refuse ? "refuse" : nil, reset ? "reset" : nil, status.map { _ in "status" }, badJSON ? "bad_json" : nil,
                cut.map { _ in "cut" }, slow.map { _ in "slow" },
            ].compactMap(\.self)
            guard effects.count < 2 else { throw ValidationError("Give one of --refuse, --reset, --status, --bad-json, --cut and --slow.") }
            guard delay != nil || !effects.isEmpty else {
                throw ValidationError("Give a fault: --delay, --refuse, --reset, --status, --bad-json, --cut or --slow.")
            }
            let (least, most) = try Self.delay(delay)
            guard let percent = Int(rate.hasSuffix("%") ? String(rate.dropLast()) : rate), (1...100).contains(percent) else {
                throw ValidationError("--rate must be between 1% and 100%, not \(rate).")
            }
            guard let time = TimeSpan.parse(duration), (1_000...Int(FaultTable.durationLimit)).contains(time) else {
                throw ValidationError("--for must be a time between 1s and 24h, not \(duration)\(NumberUnit.duration.advice(duration)).")
            }
            let bytes = slow.map { ByteSize.parse($0) }
            if let bytes, bytes ?? 0 < 1 {
                throw ValidationError("--slow must be a size such as 10KiB, not \(slow ?? "")\(NumberUnit.size.advice(slow ?? "")).")
            }
            return [
                ("path", path), ("delay", String(least)), ("delay_to", String(most)), ("effect", effects.first),
                ("status", status.map { String($0) }), ("rate", bytes.flatMap(\.self).map { String($0) }), ("percent", String(percent)),
                ("for", String(time / 1_000)),
            ]
        }

        private static func delay(_ text: String?) throws -> (least: Int, most: Int) {
            guard let text else { return (0, 0) }
            let parts = text.split(separator: "..", omittingEmptySubsequences: false).map { String($0) }
            let times = parts.compactMap { TimeSpan.parse($0) }
            guard times.count == parts.count, parts.count <= 2, let least = times.first, let most = times.last, least <= most,
                most <= 3_600_000
            else { throw ValidationError("--delay must be a time of at most 1h, such as 2s or 2s..4s, not \(text).") }
            return (least, most)
        }
    }

    enum CutPart: String, ExpressibleByArgument, CaseIterable { case body }

    struct List: AdminCommand {
        static let configuration = CommandConfiguration(commandName: "ls", abstract: "Show the faults that are injected now.")

        @Flag(help: "JSON.")
        var json = false

        @OptionGroup var options: AdminOptions

        func run(_ client: AdminClient) throws {
            let faults = try client.value("GET", "faults")
            StandardOutput.write(json ? faults.document : Array(Drill.describe(faults).utf8))
        }
    }

    struct Clear: AdminCommand {
        static let configuration = CommandConfiguration(abstract: "End one fault, or all.")

        @Argument(help: "Number of the fault to end. Without it, all faults end.")
        var number: Int?

        @OptionGroup var options: AdminOptions

        func run(_ client: AdminClient) throws {
            let count = try client.value("DELETE", number.map { "faults/\($0)" } ?? "faults")["removed"]?.integer ?? 0
            StandardOutput.write(count == 1 ? "1 fault ended\n" : "\(count) faults ended\n")
        }
    }

    private static func describe(_ response: JSONValue) -> String {
        let faults = response["faults"]?.array ?? []
        guard !faults.isEmpty else { return "no fault is injected\n" }
        var table = TextTable([("NUMBER", true), ("PATH", false), ("FAULT", false), ("OF REQUESTS", true), ("ENDS IN", true)])
        for fault in faults {
            table.add([
                String(fault["number"]?.integer ?? 0), Printable.text(fault["path"]?.string ?? ""), fault["fault"]?.string ?? "",
                "\(fault["percent"]?.integer ?? 0) %", "\(fault["seconds_left"]?.integer ?? 0) s",
            ])
        }
        return table.text
    }
}

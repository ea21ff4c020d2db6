// GET, POST and DELETE /-/faults: faults injected between Cistern and its upstream, for drills.

import HTTPCore
import JSON
import Upstream

enum FaultPages {
    @Sendable static func list(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        task.reply(AdminResponse(json(task.server)))
    }

    @Sendable static func add(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["path", "delay", "delay_to", "effect", "status", "rate", "percent", "for"])
        guard task.interface.settings.allowsFaults else {
            throw AdminProblem(status: 403, sentence: "Faults may be injected only if the setting admin.faults is true.")
        }
        let path = task.request["path"] ?? "/**"
        guard path.hasPrefix("/"), !path.contains("?") else { throw .badRequest("path must begin with a slash, and have no arguments.") }
        let fault = try fault(task.request)
        let percent = try number(task.request, "percent", 1...100) ?? 100
        let duration = try number(task.request, "for", 1...Int(FaultTable.durationLimit / 1_000)) ?? 300
        let end = task.server.monotonicMilliseconds + Int64(duration) * 1_000
        task.server.changeFaults {
            $0.add(path: path, fault, percent: percent, end: end)
        } then: { number in
            guard let number else {
                return task.reply(
                    AdminResponse(
                        AdminProblem.badRequest("There are already \(FaultTable.ruleLimit) faults, the maximum: remove one first.")))
            }
            task.reply(AdminResponse(["number": .integer(number), "faults": json(task.server)["faults"] ?? .array([])]))
        }
    }

    @Sendable static func removeAll(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        task.server.changeFaults {
            $0.remove(nil).count
        } then: { count in
            task.reply(AdminResponse(["removed": .integer(count)]))
        }
    }

    @Sendable static func remove(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        guard let number = Int(task.item), task.server.faults.rules.contains(where: { $0.number == number }) else {
            throw .notFound("No fault has the number \(task.item); cistern drill ls lists the faults.")
        }
        task.server.changeFaults {
            $0.remove(number).count
        } then: { count in
            task.reply(AdminResponse(["removed": .integer(count)]))
        }
    }

    // MARK: Parameters

    private static func fault(_ request: AdminRequest) throws(AdminProblem) -> InjectedFault {
        let least = try number(request, "delay", 0...3_600_000) ?? 0
        let most = try number(request, "delay_to", 0...3_600_000) ?? least
        guard least <= most else { throw .badRequest("delay_to must not be less than delay.") }
        let effect = try effect(request)
        guard effect != .none || most > 0 else { throw .badRequest("Give a delay, an effect, or both.") }
        return InjectedFault(delay: Int64(least)...Int64(most), effect)
    }

    private static func effect(_ request: AdminRequest) throws(AdminProblem) -> InjectedFault.Effect {
        switch request["effect"] {
        case nil: return .none
        case "refuse": return .refuse
        case "reset": return .reset
        case "bad_json": return .badJSON
        case "cut": return .cut
        case "status":
            guard let status = try number(request, "status", 200...599), status != 204, status != 304 else {
                throw .badRequest("status must be between 200 and 599, and must permit content.")
            }
            return .status(Status(rawValue: UInt16(status)))
        case "slow":
            guard let rate = try number(request, "rate", 1...1_000_000_000) else {
                throw .badRequest("rate must be a number of bytes per second.")
            }
            return .slow(bytesPerSecond: rate)
        case let other?:
            throw .badRequest("effect must be one of refuse, reset, status, bad_json, cut, slow, not \"\(other)\".")
        }
    }

    private static func number(_ request: AdminRequest, _ name: String, _ range: ClosedRange<Int>) throws(AdminProblem) -> Int? {
        guard let text = request[name] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw .badRequest("\(name) must be a whole number between \(range.lowerBound) and \(range.upperBound).")
        }
        return number
    }

    private static func json(_ server: any AdministeredServer) -> JSONValue {
        let now = server.monotonicMilliseconds
        let faults = server.faults.rules.filter { $0.end > now }.map { rule in
            JSONValue.object([
                .init("number", .integer(rule.number)), .init("path", .string(rule.path)), .init("fault", .string(rule.fault.text)),
                .init("percent", .integer(rule.percent)), .init("seconds_left", .integer(Int((rule.end - now + 999) / 1_000))),
            ])
        }
        return ["faults": .array(faults)]
    }
}

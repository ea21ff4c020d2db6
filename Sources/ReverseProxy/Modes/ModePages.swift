// GET, PUT and DELETE /-/mode: which mode is for which paths, and switching it.

import HTTPCore

enum ModePages {
    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        task.reply(AdminAnswer(json(task.interface.server.modes)))
    }

    @Sendable static func set(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["mode", "prefix"])
        guard let mode = task.request["mode"].flatMap(ServingMode.init(rawValue:)) else {
            throw .badRequest("mode must be one of \(ServingMode.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        let prefix = try prefix(task.request) ?? ""
        guard task.interface.server.changeModes({ $0.set(mode, prefix: prefix) }, then: { reply(task) }) else {
            throw .badRequest("There are \(ModeTable.ruleLimit) prefixes with a mode of their own already.")
        }
    }

    @Sendable static func remove(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["prefix"])
        guard let prefix = try prefix(task.request) else { throw .badRequest("Say which prefix is to be as all other paths again.") }
        guard task.interface.server.changeModes({ $0.remove(prefix: prefix) }, then: { reply(task) }) else {
            throw .notFound("No mode was set for this prefix.")
        }
    }

    private static func prefix(_ request: AdminRequest) throws(AdminProblem) -> String? {
        guard let prefix = request["prefix"] else { return nil }
        guard prefix.hasPrefix("/") else { throw .badRequest("prefix must begin with a slash.") }
        return prefix
    }

    /// Once every shard knows.
    @Sendable private static func reply(_ task: AdminInterface.Task) { task.reply(AdminAnswer(json(task.interface.server.modes))) }

    private static func json(_ modes: ModeTable) -> JSONValue {
        let prefixes = modes.rules.map {
            JSONValue.object([.init("prefix", .string($0.prefix)), .init("mode", .string($0.mode.rawValue))])
        }
        return ["mode": .string(modes.all.rawValue), "prefixes": .array(prefixes)]
    }
}

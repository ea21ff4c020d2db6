// GET, PUT and DELETE /-/mode: which mode is for which paths, and switching it.

import CachePolicy
import HTTPCore
import JSON

enum ModePages {
    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        task.reply(AdminResponse(json(task.server)))
    }

    @Sendable static func set(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["mode", "prefix", "route"])
        guard let mode = task.request["mode"].flatMap(ServingMode.init(rawValue:)) else {
            throw .badRequest("mode must be one of \(ServingMode.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        if let route = try route(task) {
            _ = task.server.changeModes({ $0.set(mode, route: route) }, then: { reply(task) })
            return
        }
        let prefix = try prefix(task.request) ?? ""
        guard task.server.changeModes({ $0.set(mode, prefix: prefix) }, then: { reply(task) }) else {
            throw .badRequest("There are \(ModeTable.ruleLimit) prefixes with a mode of their own already.")
        }
    }

    @Sendable static func remove(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["prefix", "route"])
        if let route = try route(task) {
            guard task.server.changeModes({ $0.set(nil, route: route) }, then: { reply(task) }) else {
                throw .notFound("No mode was set for this route.")
            }
            return
        }
        guard let prefix = try prefix(task.request) else {
            throw .badRequest("Say which prefix or route is to be as all other paths again.")
        }
        guard task.server.changeModes({ $0.remove(prefix: prefix) }, then: { reply(task) }) else {
            throw .notFound("No mode was set for this prefix.")
        }
    }

    private static func prefix(_ request: AdminRequest) throws(AdminProblem) -> String? {
        guard let prefix = request["prefix"] else { return nil }
        guard prefix.hasPrefix("/") else { throw .badRequest("prefix must begin with a slash.") }
        return String(decoding: RequestTarget.escaped(Array(prefix.utf8)[...], isTyped: true), as: UTF8.self)
    }

    /// The place of the route that is named; nil where none is.
    private static func route(_ task: AdminInterface.Task) throws(AdminProblem) -> Int? {
        guard let name = task.request["route"] else { return nil }
        guard task.request["prefix"] == nil else { throw .badRequest("Give a prefix or a route, not both.") }
        let names = task.server.routeNames
        guard let place = names.firstIndex(of: name) else {
            let known = names.isEmpty ? "there is none" : "there are " + names.joined(separator: ", ")
            throw .notFound("No route is called \(name): \(known).")
        }
        return place
    }

    /// Once every shard knows.
    @Sendable private static func reply(_ task: AdminInterface.Task) { task.reply(AdminResponse(json(task.server))) }

    private static func json(_ server: any AdministeredServer) -> JSONValue {
        let modes = server.modes
        let prefixes = modes.rules.map {
            JSONValue.object([.init("prefix", .string($0.prefix)), .init("mode", .string($0.mode.rawValue))])
        }
        let routes = modes.routes.sorted { $0.key < $1.key }.map {
            JSONValue.object([.init("route", .string(server.routeNames[$0.key])), .init("mode", .string($0.value.rawValue))])
        }
        return ["mode": .string(modes.all.rawValue), "prefixes": .array(prefixes), "routes": .array(routes)]
    }
}

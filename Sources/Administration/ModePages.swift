// GET, PUT and DELETE /-/mode: shows and changes the modes of paths.

import CachePolicy
import Dispatch
import HTTPCore
import JSON

enum ModePages {
    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["api"])
        task.reply(AdminResponse(try json(task)))
    }

    @Sendable static func set(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["mode", "prefix", "route", "api"])
        guard let mode = task.request["mode"].flatMap(ServingMode.init(rawValue:)) else {
            throw .badRequest("mode must be one of \(ServingMode.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        if let (api, route) = try route(task) {
            _ = api.changeModes({ $0.set(mode, route: route) }, then: { reply(task) })
            return
        }
        let prefix = try prefix(task.request) ?? ""
        let problem = AdminProblem.badRequest(
            "There are already \(ModeTable.ruleLimit) prefixes with a separate mode, the maximum: remove one first.")
        try change(task, { $0.set(mode, prefix: prefix) }, orElse: problem)
    }

    @Sendable static func remove(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["prefix", "route", "api"])
        if let (api, route) = try route(task) {
            guard api.changeModes({ $0.set(nil, route: route) }, then: { reply(task) }) else {
                throw .notFound("No mode was set for this route.")
            }
            return
        }
        guard let prefix = try prefix(task.request) else {
            throw .badRequest("Give the prefix or the route of the mode to remove.")
        }
        try change(task, { $0.remove(prefix: prefix) }, orElse: .notFound("No mode was set for this prefix."))
    }

    /// Changes the modes of the selected APIs, and replies when all loops have received the change.
    /// - Parameter problem: thrown if no API had anything to change.
    private static func change(
        _ task: AdminInterface.Task, _ change: (inout ModeTable) -> Bool, orElse problem: AdminProblem
    ) throws(AdminProblem) {
        let apis = try task.apis()
        let changes = DispatchGroup()
        var isChanged = false
        for api in apis {
            changes.enter()
            if api.changeModes(change, then: { changes.leave() }) { isChanged = true } else { changes.leave() }
        }
        guard isChanged else { throw problem }
        changes.notify(queue: .global(qos: .utility)) { reply(task) }
    }

    private static func prefix(_ request: AdminRequest) throws(AdminProblem) -> String? {
        guard let prefix = request["prefix"] else { return nil }
        guard prefix.hasPrefix("/") else { throw .badRequest("prefix must begin with a slash.") }
        return String(decoding: RequestTarget.escaped(Array(prefix.utf8)[...], isTyped: true), as: UTF8.self)
    }

    /// The route named in the request, with its API and its index; nil if none is named.
    private static func route(_ task: AdminInterface.Task) throws(AdminProblem) -> (api: any AdministeredAPI, index: Int)? {
        guard let name = task.request["route"] else { return nil }
        guard task.request["prefix"] == nil else { throw .badRequest("Give a prefix or a route, not both.") }
        let apis = try task.apis()
        let found = apis.compactMap { api in api.routeNames.firstIndex(of: name).map { (api, $0) } }
        guard found.count < 2 else {
            throw .badRequest(
                "Several APIs have a route called \(name): select one with api=\(found.map(\.0.name).joined(separator: ", ")).")
        }
        guard let route = found.first else {
            let names = apis.flatMap(\.routeNames)
            let known = names.isEmpty ? "there are no routes" : "there are " + names.joined(separator: ", ")
            throw .notFound("No route is called \(name): \(known).")
        }
        return route
    }

    /// Replies with the modes. Called when all loops have received the change.
    @Sendable private static func reply(_ task: AdminInterface.Task) {
        do throws(AdminProblem) {
            task.reply(AdminResponse(try json(task)))
        } catch {
            task.reply(AdminResponse(error))
        }
    }

    private static func json(_ task: AdminInterface.Task) throws(AdminProblem) -> JSONValue {
        try task.json { api in
            let modes = api.modes
            let prefixes = modes.rules.map {
                JSONValue.object([.init("prefix", .string($0.prefix)), .init("mode", .string($0.mode.rawValue))])
            }
            let routes = modes.routes.sorted { $0.key < $1.key }.map {
                JSONValue.object([.init("route", .string(api.routeNames[$0.key])), .init("mode", .string($0.value.rawValue))])
            }
            return [
                .init("mode", .string(modes.all.rawValue)), .init("prefixes", .array(prefixes)), .init("routes", .array(routes)),
            ]
        }
    }
}

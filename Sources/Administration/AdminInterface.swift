// The admin interface: its table of paths, and the queue of their handlers. Because of the queue, a scan of a large store does not block
// event loops.

import CachePolicy
import Dispatch
import HTTPCore
import JSON
import ResponseCache

/// `@unchecked Sendable` because all properties are constant, and their objects synchronize themselves or are confined to the queue.
public final class AdminInterface: @unchecked Sendable {
    public let settings: AdminSettings
    unowned let server: any AdministeredServer
    /// At least one.
    let apis: [any AdministeredAPI]
    /// A cache view per API, confined to the queue; empty if nothing is stored.
    private let caches: [ResponseCache]
    let gathering = StatusCollector()
    let recent = RecentActivityCollector()
    private let queue = DispatchQueue(label: "cistern.admin", qos: .utility)
    /// Erasing takes long, and other pages do not wait for it.
    private static let eraseQueue = DispatchQueue(label: "cistern.erase", qos: .utility)

    /// Maximum length of request content in bytes. The longest content is an archived response.
    public static let contentLimitBytes = 96 << 20

    /// - Parameter apis: the served APIs, for the lifetime of the interface.
    public init(server: any AdministeredServer, apis: [any AdministeredAPI], settings: AdminSettings) {
        self.server = server
        self.apis = apis
        self.settings = settings
        caches = apis.compactMap(\.cache).map { cache in
            ResponseCache(cache, mayWait: true) { [unowned server] in
                CacheTime(wall: Timestamp(milliseconds: server.wallMilliseconds), monotonic: server.monotonicMilliseconds)
            }
        }
    }

    public typealias Reply = @Sendable (AdminResponse) -> Void

    /// A request with its context.
    struct Task: Sendable {
        let interface: AdminInterface
        let server: any AdministeredServer
        let request: AdminRequest
        /// The path segment that matched the route's `*`.
        let item: String
        let reply: Reply

        /// Whether APIs have names, which requests and responses then use.
        var namesAPIs: Bool { !interface.apis[0].name.isEmpty }

        /// Indices of the selected APIs: of the named one, or of all.
        func apiIndexes() throws(AdminProblem) -> [Int] {
            let apis = interface.apis
            guard let name = request["api"] else { return Array(apis.indices) }
            guard namesAPIs, let index = apis.firstIndex(where: { $0.name == name }) else {
                let known = namesAPIs ? "there are \(apis.map(\.name).joined(separator: ", "))" : "there is only one API, without a name"
                throw .notFound("No API is called \(name): \(known).")
            }
            return [index]
        }

        func apis() throws(AdminProblem) -> [any AdministeredAPI] { try apiIndexes().map { interface.apis[$0] } }

        /// Caches of the selected APIs, for a joint scan.
        func group() throws(AdminProblem) -> (group: CacheGroup, caches: [ResponseCache]) {
            let apiIndexes = try apiIndexes()
            guard !interface.caches.isEmpty else { throw .unavailable("This process has no store.") }
            return (CacheGroup(interface.caches, meaning: apiIndexes), interface.caches)
        }

        /// The selected APIs with their caches.
        func caches() throws(AdminProblem) -> [(api: any AdministeredAPI, cache: ResponseCache)] {
            let apiIndexes = try apiIndexes()
            guard !interface.caches.isEmpty else { throw .unavailable("This process has no store.") }
            return apiIndexes.map { (interface.apis[$0], interface.caches[$0]) }
        }

        /// JSON for each selected API; a single unnamed API is not wrapped in a list.
        func json(_ members: (any AdministeredAPI) -> [JSONValue.Member]) throws(AdminProblem) -> JSONValue {
            let apis = try apis()
            guard namesAPIs else { return .object(members(apis[0])) }
            return ["apis": .array(apis.map { .object([JSONValue.Member("api", .string($0.name))] + members($0)) })]
        }
    }

    struct Route: Sendable {
        let method: Method
        /// Segments after `/-/`; `*` matches any single one.
        let path: [String]
        let perform: @Sendable (Task) throws(AdminProblem) -> Void

        init(_ method: Method, _ path: String, _ perform: @escaping @Sendable (Task) throws(AdminProblem) -> Void) {
            self.method = method
            self.path = path.split(separator: "/").map(String.init)
            self.perform = perform
        }

        /// The segment that matched `*`, or empty if the route has none; nil if the path does not match.
        func item(in segments: [String]) -> String? {
            guard segments.count == path.count else { return nil }
            var item = ""
            for (segment, wanted) in zip(segments, path) {
                if wanted == "*" { item = segment } else if segment != wanted { return nil }
            }
            return item
        }
    }

    static let routes: [Route] = [
        Route(.get, "openapi.json") { task in
            task.reply(AdminResponse(content: PackageResources.openapi_json, contentType: "application/json"))
        },
        Route(.get, "entries", EntryPages.list),
        Route(.get, "entries/*", EntryPages.show),
        Route(.get, "entries/*/content", EntryPages.content),
        Route(.post, "entries", Importing.perform),
        Route(.post, "purge", Purging.perform),
        Route(.get, "upstream", StatePages.upstream),
        Route(.post, "upstream/reset", StatePages.resetUpstream),
        Route(.get, "share", SharePage.show),
        Route(.get, "stats", StatePages.stats),
        Route(.get, "status", StatusPages.show),
        Route(.get, "status/exchanges", StatusPages.exchanges),
        Route(.post, "reload", ReloadPage.perform),
        Route(.get, "why", WhyPages.list),
        Route(.get, "why/*", WhyPages.show),
        Route(.get, "advice", AdvicePage.show),
        Route(.get, "mode", ModePages.show),
        Route(.put, "mode", ModePages.set),
        Route(.delete, "mode", ModePages.remove),
        Route(.get, "faults", FaultPages.list),
        Route(.post, "faults", FaultPages.add),
        Route(.delete, "faults", FaultPages.removeAll),
        Route(.delete, "faults/*", FaultPages.remove),
    ]

    var now: Timestamp { Timestamp(milliseconds: server.wallMilliseconds) }
    var time: CacheTime { CacheTime(wall: now, monotonic: server.monotonicMilliseconds) }

    /// Runs `work` on the interface's queue.
    func later(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    /// Runs `work` on a queue that may wait for the disk for minutes.
    func eraseLater(_ work: @escaping @Sendable () -> Void) { Self.eraseQueue.async(execute: work) }

    /// Handles a request. Calls `reply` once, on any thread.
    public func perform(_ request: AdminRequest, reply: @escaping Reply) {
        let fitting = Self.routes.compactMap { route in route.item(in: request.segments).map { (route, $0) } }
        // HEAD is handled as GET; the connection omits the content (RFC 9110 §9.3.2).
        let method = request.method == .head ? .get : request.method
        guard let (route, item) = fitting.first(where: { $0.0.method == method }) else {
            guard !fitting.isEmpty else {
                return reply(AdminResponse(AdminProblem.notFound("There is no such page; /-/openapi.json describes all pages.")))
            }
            var response = AdminResponse(AdminProblem(status: 405, sentence: "This page does not support the method."))
            let methods = fitting.map { String(decoding: $0.0.method.bytes, as: UTF8.self) }
            response.fieldLines = "Allow: \(methods.joined(separator: ", "))\r\n"
            return reply(response)
        }
        guard method != .get else { return perform(route, request, item, reply) }
        guard !server.isTakenOver else {
            let problem = AdminProblem.unavailable("Another process has taken over: repeat the request on a new connection.")
            return reply(AdminResponse(problem))
        }
        perform(route, request, item) { [unowned server] response in server.afterPropagation { reply(response) } }
    }

    private func perform(_ route: Route, _ request: AdminRequest, _ item: String, _ reply: @escaping Reply) {
        queue.async { [self] in
            do throws(AdminProblem) {
                try route.perform(Task(interface: self, server: server, request: request, item: item, reply: reply))
            } catch {
                reply(AdminResponse(error))
            }
        }
    }
}

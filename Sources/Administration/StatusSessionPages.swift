// How a browser gets its session, and what the forms of the page of the state do.

import HTTPCore
import JSON
import Locking

enum StatusSessionPages {
    /// POST /-/status/code: whoever may use the administrator's interface gets a code for a browser.
    @Sendable static func issueCode(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        let code = task.server.status.sessions.withLock { $0.issueCode(now: task.server.monotonicMilliseconds) }
        task.reply(
            AdminResponse([
                "path": .string("/-/status/enter?code=\(code)"), "seconds": .integer(Int(StatusSessions.codeSeconds)),
                "pages": .array(task.server.statusURLs.map { .string($0) }),
            ]))
    }

    /// GET /-/status/enter: the code becomes a cookie. A page leads on, and no redirect: what follows is then the page's own wish, and the cookie
    /// goes along wherever the browser came from.
    @Sendable static func enter(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow(["code"])
        guard let caller = task.request.caller, caller.isOwnName else { return task.reply(AdminResponse(page: foreign)) }
        let now = task.server.monotonicMilliseconds
        guard let code = task.request["code"],
            let session = task.server.status.sessions.withLock({ $0.open(code, for: caller.holder, now: now) })
        else {
            let sentence = "This code is none, was used already, or is older than a minute. Ask for another: cistern status --open"
            return task.reply(AdminResponse(page: AdminProblem(status: 403, sentence: sentence)))
        }
        var response = AdminResponse(page: "Go on to the page", to: session.path, isAtOnce: true)
        response.fieldLines += setCookie(session.id, at: session.path, seconds: StatusSessions.sessionSeconds, isSecured: caller.isSecured)
        task.reply(response)
    }

    /// A field line: the cookie is for this session's paths alone.
    private static func setCookie(_ id: String, at path: String, seconds: Int64, isSecured: Bool) -> String {
        let attributes = "Path=\(path); Max-Age=\(seconds); HttpOnly; SameSite=Strict\(isSecured ? "; Secure" : "")"
        return "Set-Cookie: \(SessionCookie.name)=\(id); \(attributes)\r\n"
    }

    static let foreign = AdminProblem(
        status: 403,
        sentence:
            "Here is no page for this: begin with cistern status --open, and ask by an address, localhost, or a name of a certificate or of admin.names."
    )

    /// What a form says, and where its page is, once it is sure that a person sent it from there.
    private static func form(_ task: AdminInterface.Task) throws(AdminProblem) -> (form: AdminRequest, caller: StatusCaller, path: String) {
        try task.request.allow([])
        guard let place = task.request.place else { throw .notFound("No session is called so.") }
        guard let form = task.request.form else { throw .badRequest("The form is not understood.") }
        let (token, now) = (form["token"], task.server.monotonicMilliseconds)
        guard let caller = task.request.caller,
            task.server.status.sessions.withLock({ caller.mayChange($0, at: place, formToken: token, now: now) })
        else { throw foreign }
        return (form, caller, SessionCookie.path + place)
    }

    /// POST /-/status/{session}/purge: the form says what, and that it is meant.
    @Sendable static func purge(_ task: AdminInterface.Task) throws(AdminProblem) {
        let (form, _, path) = try form(task)
        guard form["sure"] == "yes" else { throw .badRequest("Nothing was purged: say that it is meant.") }
        var wanted = form
        wanted.arguments.removeAll { ["token", "sure", "how"].contains($0.name) || $0.value.isEmpty }
        if form["how"] != "hard" { wanted.arguments.append(("soft", "true")) }
        let purging = AdminInterface.Task(interface: task.interface, server: task.server, request: wanted, item: "") { response in
            guard let count = JSONValue(response.content)?["purged"]?.integer else { return task.reply(response) }
            task.reply(AdminResponse(seeOther: "\(path)?purged=\(count)#store"))
        }
        try Purging.perform(purging)
    }

    /// POST /-/status/{session}/end
    @Sendable static func end(_ task: AdminInterface.Task) throws(AdminProblem) {
        let (_, caller, path) = try form(task)
        task.server.status.sessions.withLock { $0.end(at: task.item) }
        var response = AdminResponse(seeOther: "/-/status")
        response.fieldLines += setCookie("", at: path, seconds: 0, isSecured: caller.isSecured)
        task.reply(response)
    }
}

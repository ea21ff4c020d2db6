// How a browser gets its session, and what the forms of the page of the state do.

import HTTPCore
import JSON
import Locking
import StatusPage

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
        guard let caller = task.request.caller, caller.isOwnName else { throw foreign }
        let now = task.server.monotonicMilliseconds
        guard let code = task.request["code"], let session = task.server.status.sessions.withLock({ $0.open(code, now: now) }) else {
            let nonce = AdminSecret.random()
            let sentence = "This code is none, was used already, or is older than a minute. Ask for another: cistern status --open"
            var response = AdminResponse(
                content: StatusPage.notice(sentence, leadsOn: false, nonce: nonce), contentType: StatusPage.contentType)
            response.status = 403
            response.fieldLines = StatusPage.fieldLines(nonce: nonce)
            return task.reply(response)
        }
        let nonce = AdminSecret.random()
        var response = AdminResponse(
            content: StatusPage.notice("Go on to the page", leadsOn: true, nonce: nonce), contentType: StatusPage.contentType)
        let attributes =
            "Path=/-/status; Max-Age=\(StatusSessions.sessionSeconds); HttpOnly; SameSite=Strict\(caller.isSecured ? "; Secure" : "")"
        response.fieldLines = StatusPage.fieldLines(nonce: nonce) + "Set-Cookie: \(StatusSessions.cookie)=\(session.id); \(attributes)\r\n"
        task.reply(response)
    }

    static let foreign = AdminProblem(
        status: 403,
        sentence: "Here is no page for this: begin with cistern status --open, and ask by an address, localhost, or a certificate's name.")

    /// POST /-/status/purge: the form says what, and that it is meant.
    @Sendable static func purge(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        guard let form = task.request.form else { throw .badRequest("The form is not understood.") }
        let token = form.arguments.first { $0.name == "token" }?.value
        guard let caller = task.request.caller,
            task.server.status.sessions.withLock({ caller.mayChange($0, formToken: token, now: task.server.monotonicMilliseconds) })
        else { throw foreign }
        guard form["sure"] == "yes" else { throw .badRequest("Nothing was purged: say that it is meant.") }
        var wanted = form
        wanted.arguments.removeAll { ["token", "sure", "how"].contains($0.name) || $0.value.isEmpty }
        if form["how"] != "hard" { wanted.arguments.append(("soft", "true")) }
        let purging = AdminInterface.Task(interface: task.interface, server: task.server, request: wanted, item: "") { response in
            guard let count = JSONValue(response.content)?["purged"]?.integer else { return task.reply(response) }
            task.reply(AdminResponse(seeOther: "/-/status?purged=\(count)#store"))
        }
        try Purging.perform(purging)
    }
}

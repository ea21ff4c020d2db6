// Reloads the settings and the files that they name, either completely or not at all.

import HTTPCore
import JSON

enum ReloadPage {
    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        task.server.reload { outcome in
            switch outcome {
            case .applied(let applied):
                let list = { (words: [String]) in JSONValue.array(words.map { .string($0) }) }
                task.reply(
                    AdminResponse([
                        "result": .string(outcome.label), "changed": list(applied.changed),
                        "awaiting_restart": list(applied.awaitingRestart), "certificates": list(applied.certificates),
                        "warnings": list(applied.warnings),
                    ]))
            case .refused(let mistakes):
                task.reply(
                    AdminResponse(
                        AdminProblem(status: 409, sentence: "Reload rejected, settings unchanged: " + mistakes.joined(separator: "; "))))
            }
        }
    }
}

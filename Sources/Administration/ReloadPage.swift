// Reads again what lies in files and may have changed: the certificates for clients.

import HTTPCore
import JSON

enum ReloadPage {
    @Sendable static func perform(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        task.server.reloadCertificates { outcome in
            switch outcome {
            case .none: task.reply(AdminResponse(["certificates": .array([]), "warnings": .array([])]))
            case .taken(let files, let warnings):
                task.reply(
                    AdminResponse(["certificates": .array(files.map { .string($0) }), "warnings": .array(warnings.map { .string($0) })]))
            case .refused(let mistakes):
                task.reply(AdminResponse(AdminProblem(status: 409, sentence: "All stays as it was: " + mistakes.joined(separator: "; "))))
            }
        }
    }
}

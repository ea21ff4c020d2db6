// GET /-/share: the state of the fleet as seen by this node.

enum SharePage {
    @Sendable static func show(_ task: AdminInterface.Task) throws(AdminProblem) {
        try task.request.allow([])
        task.server.collectShare { state in
            guard let state else {
                return task.reply(AdminResponse(AdminProblem.notFound("Nothing is shared with other nodes: share.servers is empty.")))
            }
            task.reply(AdminResponse(state))
        }
    }
}

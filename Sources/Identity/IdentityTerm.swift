import Synchronization

/// The period in which a token is known to belong to one user.
final class IdentityTerm: Sendable {
    private let changes = Atomic(0)
    private let over = Atomic(false)
    private let overByWrite = Atomic(false)
    /// Number of active unsafe requests.
    private let writes = Atomic(0)

    /// Changes with the beginning and the end of every unsafe request.
    var number: Int { changes.load(ordering: .acquiring) }
    var isOver: Bool { over.load(ordering: .acquiring) }
    /// Whether an unsafe request has ended it.
    var isOverByWrite: Bool { overByWrite.load(ordering: .acquiring) }
    var hasWrites: Bool { writes.load(ordering: .acquiring) > 0 }
    var isUsable: Bool { !isOver && !hasWrites }

    func beginWrite() {
        writes.add(1, ordering: .acquiringAndReleasing)
        changes.add(1, ordering: .acquiringAndReleasing)
    }

    func endWrite(isWithoutEffect: Bool) {
        if !isWithoutEffect {
            overByWrite.store(true, ordering: .releasing)
            end()
        }
        changes.add(1, ordering: .acquiringAndReleasing)
        writes.subtract(1, ordering: .acquiringAndReleasing)
    }

    func end() {
        over.store(true, ordering: .releasing)
        change()
    }

    /// Makes all results that requests use at present outdated.
    func change() { changes.add(1, ordering: .acquiringAndReleasing) }
}

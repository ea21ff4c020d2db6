// Why a node sees no more what the others say.

public enum BlindCause: Sendable, Hashable, CaseIterable {
    /// The connection was lost, or what came on it was of no use. Who says so knows more.
    case lost
    /// The engine has said nothing for too long.
    case silence
    /// This process, or its machine, was stopped: what came meanwhile says nothing of now.
    case stopped
    /// There is another log in the place of the one that was followed.
    case otherLog
    /// Another server has the log.
    case otherPrimary
    /// The log has less than was read of it.
    case removed
    /// Entries of another node are missing, and are waited for.
    case missing
    /// The engine refuses what this node appends.
    case refused
    /// What this node has appended is not read.
    case unheard
}

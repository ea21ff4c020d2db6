// The settings file of the working directory, cistern.yaml. It is used only if no other user could have written it, and never by a service,
// whose working directory may be any.

import CSystem
import Glibc
import Reactor

enum WorkingDirectoryFile {
    enum Finding: Equatable {
        case none
        case usable
        /// The reason, as a clause that follows the file's name.
        case refused(String)
    }

    static let name = "./cistern.yaml"

    /// - Parameter environment: of this process.
    static func find(_ environment: [String: String] = Environment.all()) -> Finding {
        guard environment["CISTERN_CONFIG"] == nil, !isService(environment, hasTerminal: isatty(STDIN_FILENO) == 1) else { return .none }
        // Without following a link, whose target may change.
        let file = Descriptor(csystem_open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0))
        guard file.isOpen else {
            switch errno {
            case ENOENT: return .none
            case ELOOP: return .refused("is a symbolic link")
            default: return .refused("cannot be read: \(SystemError.words(errno))")
            }
        }
        var (status, directory) = (stat(), stat())
        guard fstat(file.number, &status) == 0, stat(".", &directory) == 0 else {
            return .refused("cannot be read: \(SystemError.words(errno))")
        }
        guard status.st_mode & S_IFMT == S_IFREG else { return .refused("is no regular file") }
        let fault = fault(owner: directory.st_uid, mode: directory.st_mode, user: geteuid()).map { "is in a directory that \($0)" }
        return (fault ?? self.fault(owner: status.st_uid, mode: status.st_mode, user: geteuid())).map { .refused($0) } ?? .usable
    }

    /// Why another user could have written a file or directory; nil if none could.
    static func fault(owner: uid_t, mode: mode_t, user: uid_t) -> String? {
        if owner != user, owner != 0 { return "belongs to another user" }
        if mode & 0o002 != 0 { return "can be changed by every user" }
        return mode & 0o020 != 0 ? "can be changed by its group" : nil
    }

    /// Whether a service manager started the process. Terminals of a systemd session pass INVOCATION_ID to their shells, so it counts only
    /// without a terminal.
    static func isService(_ environment: [String: String], process: pid_t = getpid(), hasTerminal: Bool) -> Bool {
        if environment["NOTIFY_SOCKET"] != nil { return true }
        if ["SYSTEMD_EXEC_PID", "LISTEN_PID"].contains(where: { environment[$0].flatMap({ pid_t($0) }) == process }) { return true }
        return environment["INVOCATION_ID"] != nil && !hasTerminal
    }
}

extension SettingsOptions {
    /// Uses the file of the working directory, unless a file is given.
    /// - Returns: a sentence about the file that is used or refused; nil if there is none.
    mutating func useWorkingDirectory() -> (sentence: String, isRefused: Bool)? {
        guard config == nil else { return nil }
        switch WorkingDirectoryFile.find() {
        case .none: return nil
        case .usable:
            config = WorkingDirectoryFile.name
            return ("settings file: \(WorkingDirectoryFile.name) of the working directory", false)
        case .refused(let reason):
            return ("\(WorkingDirectoryFile.name) is not used, because it \(reason): correct this, or pass the file with --config", true)
        }
    }
}

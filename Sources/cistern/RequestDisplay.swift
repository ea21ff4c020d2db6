// Shows requests on the terminal: decides whether, and with colours.

import Figures
import Glibc
import Logging
import Settings

enum RequestDisplay {
    /// nil if standard error is no terminal.
    static let lines: RequestLines? =
        isatty(STDERR_FILENO) == 1 ? RequestLines(isColoured: isColoured(Environment.all())) : nil

    /// Whether the terminal shows colours, and the user wants them (no-color.org).
    static func isColoured(_ environment: [String: String]) -> Bool {
        environment["NO_COLOR"]?.isEmpty != false && !["", "dumb"].contains(environment["TERM"] ?? "")
    }

    /// Applies the settings to subsequent requests.
    static func use(_ settings: CisternSettings.Log) {
        lines?.turn(on: isWanted(settings, isOutputTerminal: isatty(STDOUT_FILENO) == 1))
    }

    /// JSON lines are for programs. An access log on the terminal shows the requests already.
    static func isWanted(_ settings: CisternSettings.Log, isOutputTerminal: Bool) -> Bool {
        settings.requests && settings.format == .text && settings.level < .warning
            && !(settings.access == "stdout" && isOutputTerminal)
    }
}

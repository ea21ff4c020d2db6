// The process log: swift-log to standard error, as text or as JSON lines.

import CSystem
import Figures
import Glibc
import HTTPCore
import Logging
import Reactor
import Settings
import Synchronization

enum LogSetup {
    /// Also used to flush the log at exit.
    static let writer = LogWriter()

    /// Read by all threads, changed by a reload.
    fileprivate static let level = Atomic(0)
    fileprivate static let isJSON = Atomic(false)

    static func start(_ settings: CisternSettings.Log) -> Logger {
        use(settings)
        LoggingSystem.bootstrap { label in LineHandler(label: label) }
        return logger
    }

    /// Valid after `start`.
    static var logger: Logger { Logger(label: "cistern") }

    /// Applies level and format to subsequent log lines.
    static func use(_ settings: CisternSettings.Log) {
        level.store(Logger.Level.allCases.firstIndex(of: settings.level) ?? 0, ordering: .relaxed)
        isJSON.store(settings.format == .json, ordering: .relaxed)
        RequestDisplay.use(settings)
    }
}

private struct LineHandler: LogHandler {
    let label: String
    var metadata: Logger.Metadata = [:]

    /// Level of the process. Handlers have no level of their own, so the setter does nothing.
    var logLevel: Logger.Level {
        get { Logger.Level.allCases[LogSetup.level.load(ordering: .relaxed)] }
        set {}
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let time = RFC3339.format(milliseconds: SystemTime.shared.wallMilliseconds)
        let message = "\(event.message)"
        LogSetup.writer.append(
            LogSetup.isJSON.load(ordering: .relaxed)
                ? "{\"time\":\"\(time)\",\"level\":\"\(event.level)\",\"message\":\"\(Self.escaped(message))\"}\n"
                : "\(time) \(event.level) \(label): \(message)\n")
    }

    private static func escaped(_ text: String) -> String {
        var out = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": out += "\\\(scalar)"
            case _ where scalar.value < 0x20: out += " "
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out
    }
}

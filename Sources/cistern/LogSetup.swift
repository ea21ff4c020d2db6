// The program's own log: swift-log to standard error, as text or as JSON lines.

import Logging
import ReverseProxy
import Settings
import Synchronization
import Telemetry

enum LogSetup {
    /// Also for those who wait until it is written, at the end.
    static let writer = LogWriter()

    /// Asked by all threads, and changed by a reload.
    fileprivate static let level = Atomic(0)
    fileprivate static let isJSON = Atomic(false)

    static func start(_ settings: CisternSettings.Log) -> Logger {
        use(settings)
        LoggingSystem.bootstrap { label in LineHandler(label: label) }
        return Logger(label: "cistern")
    }

    /// From now on lines are written in this way.
    static func use(_ settings: CisternSettings.Log) {
        let wanted = Logger.Level(rawValue: settings.level) ?? .info
        level.store(Logger.Level.allCases.firstIndex(of: wanted) ?? 0, ordering: .relaxed)
        isJSON.store(settings.format == "json", ordering: .relaxed)
    }
}

/// One line an event.
private struct LineHandler: LogHandler {
    let label: String
    var metadata: Logger.Metadata = [:]

    /// One for all.
    var logLevel: Logger.Level {
        get { Logger.Level.allCases[LogSetup.level.load(ordering: .relaxed)] }
        set {}
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let time = LogTime.now()
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

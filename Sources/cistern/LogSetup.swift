// The program's own log: swift-log to standard error, as text or as JSON lines.

import Logging
import ReverseProxy
import Settings
import Telemetry

enum LogSetup {
    /// Also for those who wait until it is written, at the end.
    static let writer = LogWriter()

    static func start(_ settings: CisternSettings.Log) -> Logger {
        let level = Logger.Level(rawValue: settings.level) ?? .info
        let isJSON = settings.format == "json"
        LoggingSystem.bootstrap { label in LineHandler(label: label, logLevel: level, isJSON: isJSON) }
        return Logger(label: "cistern")
    }
}

/// One line an event.
private struct LineHandler: LogHandler {
    let label: String
    var logLevel: Logger.Level
    let isJSON: Bool
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let time = LogTime.now()
        let message = "\(event.message)"
        LogSetup.writer.append(
            isJSON
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

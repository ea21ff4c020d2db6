// Log lines for a test.

import Logging
import Reactor

/// Appended to by any thread.
package final class CapturedLines: Sendable {
    private let lines = Mutex<[String]>([])

    package init() {}

    package func add(_ line: String) { lines.withLock { $0.append(line) } }

    package var all: [String] { lines.withLock { $0 } }

    package func count(of text: String) -> Int { all.count { $0.contains(text) } }
}

package struct LineHandler: LogHandler {
    let said: CapturedLines
    package var metadata: Logger.Metadata = [:]
    package var logLevel = Logger.Level.trace

    package init(said: CapturedLines) { self.said = said }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) { said.add("\(event.message)") }
}

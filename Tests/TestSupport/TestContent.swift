// Typical content of upstreams.

import ContentCodings
import Testing

package enum TestContent {
    /// A list in JSON.
    /// - Parameter more: additional members of the enclosing object, each preceded by a comma.
    package static func list(_ count: Int, _ more: String = "") -> String {
        "{\"data\":[" + (0..<count).map { "{\"id\":\($0),\"b\":[1.0,\"x\"],\"a\":null}" }.joined(separator: ",") + "]\(more)}"
    }

    package static func gzip(_ text: String) throws -> [UInt8] {
        let encoder = GzipEncoder()
        try #require(encoder.begin())
        return Array(text.utf8).withUnsafeBytes { encoder.code($0, isLast: true) }
    }
}

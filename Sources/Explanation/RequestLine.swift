// A line about a completed exchange, for a terminal. Everything from the client is limited and reduced to printable ASCII. Values of
// arguments are hidden.

import CachePolicy
import Figures
import HTTPCore

public enum RequestLine {
    /// Maximum length of the displayed method, path, and arguments in bytes.
    private static let (methodLimit, pathLimit, queryLimit) = (16, 200, 100)
    private static let nameLimit = 32

    /// Returns the line with its line feed: `12:03:04 200 rescued 3.1 ms GET /users?id=… (connection_refused, 42 s old)`.
    /// - Parameter api: empty if there is only one.
    public static func text(_ record: borrowing ExchangeRecord, _ head: RequestHead, api: String, isColoured: Bool) -> [UInt8] {
        var line = Array(time(record.wall).utf8)
        let state = "\(record.status) \(record.result.label)"
        line += Array((isColoured ? " \u{1b}[\(colour(record))m\(state)\u{1b}[0m" : " \(state)").utf8)
        let duration = NumberText.duration(microseconds: record.durationMicroseconds)
        line += Array(String(repeating: " ", count: max(1, 24 - state.utf8.count - duration.count)).utf8) + Array(duration.utf8) + [0x20]
        if !api.isEmpty { line += Array("[\(api)] ".utf8) }
        append(head.method.bytes[...], limit: methodLimit, to: &line)
        line.append(0x20)
        appendTarget(head.pathAndQuery, to: &line)
        let notes = [record.loggedReason, record.age.map { "\(NumberText.span($0)) old" }].compactMap(\.self)
        if !notes.isEmpty { line += Array(" (\(notes.joined(separator: ", ")))".utf8) }
        return line + [0x0a]
    }

    /// SGR parameter: green for stored responses, yellow for rescues, red for errors, cyan for responses of the upstream.
    private static func colour(_ record: borrowing ExchangeRecord) -> Int {
        if record.isServerError { return 31 }
        switch record.result {
        case .hit, .revalidated, .collapsed: return 32
        case .rescued, .stale: return 33
        case .error: return 31
        case .miss, .bypass, .own: return 36
        }
    }

    /// Time of day (UTC), as in the log.
    private static func time(_ wall: Int64) -> String {
        let second = wall / 1_000 % 86_400
        return [second / 3_600, second / 60 % 60, second % 60].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
    }

    private static func appendTarget(_ target: some Collection<UInt8>, to line: inout [UInt8]) {
        var path = Array(SecretNames.pathAlone(target).utf8)
        // Bytes that are not UTF-8 have been replaced.
        if !target.starts(with: path) { path = Array(target.prefix { !"?;#=%".utf8.contains($0) }) }
        append(path[...], limit: pathLimit, to: &line)
        let rest = Array(target.dropFirst(path.count))
        guard let question = rest.firstIndex(of: UInt8(ascii: "?")) else {
            // Parameters of the path are hidden too.
            if !rest.isEmpty { line += hidden }
            return
        }
        if question > 0 { line += hidden }
        line.append(UInt8(ascii: "?"))
        let start = line.count
        for argument in rest[(question + 1)...].split(whereSeparator: { $0 == UInt8(ascii: "&") || $0 == UInt8(ascii: ";") }) {
            if line.count > start { line.append(UInt8(ascii: "&")) }
            guard line.count - start < queryLimit else {
                line += hidden
                return
            }
            // Without a plain name, the argument may be a secret.
            let name = argument.prefix { $0 != UInt8(ascii: "=") }
            if name.count < argument.count, name.count <= nameLimit, name.allSatisfy(isPlain) {
                line += name + [UInt8(ascii: "=")]
            }
            line += hidden
        }
    }

    private static let hidden = Array("…".utf8)

    private static func isPlain(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || byte.isASCIIDigit || "-_.[]".utf8.contains(byte)
    }

    private static func append(_ text: ArraySlice<UInt8>, limit: Int, to line: inout [UInt8]) {
        line += text.prefix(limit).map { $0 > 0x20 && $0 < 0x7f ? $0 : UInt8(ascii: "?") }
        if text.count > limit { line += hidden }
    }
}

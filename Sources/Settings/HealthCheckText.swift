// The value of `failure.probe`: `GET /health 200 every 10s`. Everything after the path is optional.

public struct HealthCheckText: Sendable, Equatable {
    public var path: String
    public var status = 200
    /// Milliseconds.
    public var interval = 10_000

    public static let form = "GET, a path, and optionally a status and an interval, such as GET /health 200 every 10s"

    /// Returns nil for a malformed text.
    public init?(_ text: String) {
        var words = text.split(separator: " ")[...]
        guard words.popFirst() == "GET", let path = words.popFirst(), path.hasPrefix("/") else { return nil }
        self.path = String(path)
        if let word = words.first, word != "every" {
            guard let status = Int(word), (200...599).contains(status) else { return nil }
            self.status = status
            words.removeFirst()
        }
        guard words.popFirst() != nil else { return }
        guard words.count == 1, let interval = TimeSpan.parse(String(words.removeFirst())), (100...3_600_000).contains(interval) else {
            return nil
        }
        self.interval = interval
    }
}

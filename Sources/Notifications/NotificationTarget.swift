// A webhook or a command that receives notifications.

public struct NotificationTarget: Sendable, Equatable {
    public enum Format: String, Sendable, CaseIterable { case json, slack }

    public struct Webhook: Sendable, Equatable {
        /// A secret: never logged or shown.
        public var url: String
        public var format = Format.json
        /// Bearer token, and key of the signature; empty for none.
        public var token: [UInt8] = []
        public var secret: [UInt8] = []
        /// File with trusted certificates, used instead of the system's; nil for the system's.
        public var authorities: String?

        public init(url: String) { self.url = url }
    }

    public enum Receiver: Sendable, Equatable {
        case webhook(Webhook)
        /// The program with its arguments.
        case command([String])
    }

    /// Maximum number of targets.
    public static let limit = 16

    public var name: String
    public var receiver: Receiver
    /// Selected events.
    public var events = Set(NotificationEvent.selectable)
    /// APIs with their names; empty for all.
    public var apis: Set<String> = []
    /// Maximum time of an attempt.
    public var timeoutMilliseconds = 10_000
    /// Maximum number of notifications about one condition within an hour.
    public var perHour = 12
    /// Milliseconds before the second attempt. Doubles with each further attempt. No setting; tests reduce it.
    public var pauseMilliseconds: Int64 = 2_000

    public init(_ name: String, _ receiver: Receiver) { (self.name, self.receiver) = (name, receiver) }

    func wants(_ notification: Notification) -> Bool {
        events.contains(notification.event) && (apis.isEmpty || notification.api.isEmpty || apis.contains(notification.api))
    }
}

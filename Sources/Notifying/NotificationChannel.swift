// One attempt to deliver a notification to a target. Blocks.

import CHash
import Notifications
import OwnRequests

public enum NotificationChannel {
    /// Maximum size of a webhook's response in bytes. Its content is not used.
    private static let responseLimitBytes = 64 << 10

    /// - Parameters:
    ///   - showsOutput: whether a command inherits standard output and error.
    ///   - patience: returns the remaining milliseconds until the attempt must have ended; nil if only the target's time limit applies.
    public static func deliver(
        _ notification: Notification, to target: NotificationTarget, showsOutput: Bool = false, patience: () -> Int? = { nil }
    ) -> DeliveryAttempt {
        switch target.receiver {
        case .command(let words):
            return NotificationCommand.run(
                words, notification, timeoutMilliseconds: target.timeoutMilliseconds, showsOutput: showsOutput, patience: patience)
        case .webhook(let webhook):
            let content = notification.content(webhook.format)
            let request = OwnRequest(
                webhook.url, fields: fields(webhook, notification, content), authorities: webhook.authorities,
                limitBytes: responseLimitBytes)
            let timeout = min(target.timeoutMilliseconds, patience() ?? .max)
            switch request.post(content, timeoutMilliseconds: timeout) {
            case .failed(let sentence): return .failed(sentence)
            case .answered(let status, let retryAfter, _): return DeliveryAttempt(status: status, retryAfter: retryAfter)
            }
        }
    }

    private static func fields(_ webhook: NotificationTarget.Webhook, _ notification: Notification, _ content: [UInt8]) -> [String] {
        var fields = ["Content-Type: application/json", "User-Agent: cistern"]
        // A service that is compatible with Slack needs only the text.
        if webhook.format == .json { fields.append("Cistern-Event: \(notification.event.rawValue)") }
        if !webhook.token.isEmpty { fields.append("Authorization: Bearer \(String(decoding: webhook.token, as: UTF8.self))") }
        if !webhook.secret.isEmpty { fields.append("Cistern-Signature: sha256=\(signature(of: content, webhook.secret))") }
        return fields
    }

    /// HMAC-SHA256 in hexadecimal digits (RFC 2104).
    static func signature(of content: [UInt8], _ secret: [UInt8]) -> String {
        var state = crypto_auth_hmacsha256_state()
        crypto_auth_hmacsha256_init(&state, secret, secret.count)
        crypto_auth_hmacsha256_update(&state, content, UInt64(content.count))
        var hash = [UInt8](repeating: 0, count: Int(crypto_auth_hmacsha256_bytes()))
        crypto_auth_hmacsha256_final(&state, &hash)
        let digits = Array("0123456789abcdef")
        return String(hash.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }
}

// The Cache-Status line (RFC 9211 §2): what the cache did with a request, in the registered words. One line of our own, behind those that
// came from the upstream's side.

import CachePolicy
import HTTPCore

public struct CacheStatus {
    /// The field's name, and that of this deployment.
    private let beginning: [UInt8]

    /// The detail of a response to a write that went out before its marks were in the store's files: a crash may bring back what was stored before.
    public static let goesBeforeMarks = "marks_not_written"

    /// The same where other nodes are not told yet: until then they serve what they have stored before.
    public static let goesBeforeNodes = "nodes_not_told"

    /// Longer than most lines.
    private static let usualBytes = 128
    /// More than all our words take, with two numbers.
    private static let wordBytes = 128

    /// - Parameter name: of this deployment.
    public init(name: [UInt8]) { beginning = Array("Cache-Status: ".utf8) + name }

    /// `hit` with the freshness that is left. Negative where the response is stale.
    /// - Parameters:
    ///   - key: in readable form, where it is asked for (§2.7).
    ///   - isFaulted: a fault was injected: a word of our own.
    public func hit(ttl: Int64?, key: String? = nil, detail: String? = nil, isFaulted: Bool = false, to out: inout [UInt8]) {
        begin(&out)
        out.append("; hit")
        if let ttl {
            out.append("; ttl=")
            out.append(decimal: Int(clamping: ttl))
        }
        if let key { add(key: key, to: &out) }
        if let detail { add(detail: detail, to: &out) }
        end(isFaulted: isFaulted, &out)
    }

    /// What is said of a request that was sent on.
    public struct Forwarding {
        /// Why the upstream was asked (§2.2).
        let reason: StaticString
        /// What it responded with, where that is not what the client gets (§2.3).
        let status: Status?
        let isStored: Bool
        let isCollapsed: Bool
        /// A fault was injected.
        let isFaulted: Bool
        /// In readable form, where it is asked for (§2.7).
        let key: String?
        let detail: String?

        public init(
            _ reason: StaticString, status: Status? = nil, isStored: Bool = false, isCollapsed: Bool = false, isFaulted: Bool = false,
            key: String? = nil, detail: String? = nil
        ) {
            (self.reason, self.status, self.isStored, self.isCollapsed) = (reason, status, isStored, isCollapsed)
            (self.isFaulted, self.key, self.detail) = (isFaulted, key, detail)
        }
    }

    public func forwarded(_ forwarding: borrowing Forwarding, to out: inout [UInt8]) {
        let key = forwarding.key.map { Array($0.asStringItem.utf8) }
        var detail = forwarding.detail ?? ""
        detail.withUTF8 { detail in
            let room = beginning.count + forwarding.reason.utf8CodeUnitCount + (key?.count ?? 0) + detail.count + Self.wordBytes
            out.append(atMost: max(room, Self.usualBytes)) { line in
                line.put(beginning)
                line.put("; fwd=")
                line.put(forwarding.reason)
                if let status = forwarding.status {
                    line.put("; fwd-status=")
                    line.put(decimal: Int(status.rawValue))
                }
                if forwarding.isStored { line.put("; stored") }
                if forwarding.isCollapsed { line.put("; collapsed") }
                if let key {
                    line.put("; key=")
                    line.put(key)
                }
                // Reasons are our own words: letters, digits, `_`, `-`, and between two of them `/` and `:` (a token of RFC 9651 §3.3.4).
                if !detail.isEmpty {
                    line.put("; detail=")
                    line.put(detail.baseAddress, count: detail.count)
                }
                if forwarding.isFaulted { line.put("; fault-injected") }
                line.put("\r\n")
            }
        }
    }

    private func end(isFaulted: Bool, _ out: inout [UInt8]) {
        if isFaulted { out.append("; fault-injected") }
        out.append("\r\n")
    }

    private func begin(_ out: inout [UInt8]) {
        out.reserveCapacity(out.count + Self.usualBytes)
        out += beginning
    }

    private func add(key: String, to out: inout [UInt8]) {
        out.append("; key=")
        out += Array(key.asStringItem.utf8)
    }

    /// Reasons are our own words: letters, digits, `_`, `-`, and between two of them `/` and `:` (a token of RFC 9651 §3.3.4).
    private func add(detail: String, to out: inout [UInt8]) {
        out.append("; detail=")
        var detail = detail
        detail.withUTF8 { out.append(contentsOf: $0) }
    }
}

extension [UInt8] {
    /// The Age line (RFC 9111 §5.1). Seconds.
    public mutating func append(age: Int64) {
        append("Age: ")
        append(decimal: Int(age))
        append("\r\n")
    }
}

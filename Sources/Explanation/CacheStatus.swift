// Serializes Cache-Status (RFC 9211 §2): how the cache handled a request, in the registered terms. Cistern's line follows those of the
// upstream's side.

import HTTPCore

public struct CacheStatus {
    /// The field's name, and the name of this deployment.
    private let beginning: [UInt8]

    /// Detail of a response to a write that was sent before its marks were written to the store. After a crash, responses stored before the
    /// write may reappear.
    public static let marksNotWritten = "marks_not_written"

    /// Detail of a response to a write that was sent before the other nodes were notified. Until then they serve their stored responses.
    public static let nodesNotTold = "nodes_not_told"

    /// Length of most lines in bytes.
    private static let usualBytes = 128
    /// Upper bound for all parameters and two numbers, in bytes.
    private static let wordBytes = 128

    /// - Parameter name: name of this deployment.
    public init(name: [UInt8]) { beginning = Array("Cache-Status: ".utf8) + name }

    /// Appends `hit` with the remaining freshness, which is negative for a stale response.
    /// - Parameters:
    ///   - key: the readable key, if it is requested (§2.7).
    ///   - isFaulted: whether a fault was injected; adds a parameter specific to Cistern.
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

    /// The result for a forwarded request.
    public struct Forwarding {
        /// Why the request was forwarded (§2.2).
        let reason: StaticString
        /// Status of the upstream's response, if it differs from the client's (§2.3).
        let status: Status?
        let isStored: Bool
        let isCollapsed: Bool
        let isFaulted: Bool
        /// The readable key, if it is requested (§2.7).
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
                // Details are tokens of RFC 9651 §3.3.4: letters, digits, `_`, `-`, and `/` and `:` between two of them.
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

    /// Details are tokens of RFC 9651 §3.3.4: letters, digits, `_`, `-`, and `/` and `:` between two of them.
    private func add(detail: String, to out: inout [UInt8]) {
        out.append("; detail=")
        var detail = detail
        detail.withUTF8 { out.append(contentsOf: $0) }
    }
}

extension [UInt8] {
    /// Appends Age in seconds (RFC 9111 §5.1).
    public mutating func append(age: Int64) {
        append("Age: ")
        append(decimal: Int(age))
        append("\r\n")
    }
}

// Unknown fields that have another value in each request: a time, a nonce, a name of the request. Such a field cannot select an account, so it does not
// separate stored responses. What one client sends is evidence for that client; it takes two clients, and none that sends a value again, to judge a
// field for a client that has sent too few requests.

import HTTPCore

/// Guarded by its owner. Values are numbers that stand for them.
public struct ChangingFields: Sendable {
    /// So many requests of one client with so many values.
    public static let requestCount = 16
    static let nameLimit = 256
    /// Of each field.
    static let clientLimit = 64
    /// Of each client; a value that comes again later than that is taken for a new one.
    static let valueLimit = 64
    private static let witnessCount = 2

    fileprivate struct Client {
        var values: [UInt64] = []
        /// Where the next value goes once there is no room for more.
        var next = 0
        /// New values since the last one that came twice in a row.
        var newValues = 0
        var last: UInt64?
        /// A value came again after others.
        var hasRepeated = false
        var used: UInt64 = 0
    }

    fileprivate struct Field {
        /// Who sent it first.
        let client: UInt64
        var clients: [UInt64: Client] = [:]
        /// Clients that have shown that it changes.
        var witnesses: Set<UInt64> = []
        /// Some client has sent a value again.
        var hasRepeated = false
        var used: UInt64 = 0
    }

    private var fields: [ByteKey: Field] = [:]
    private var time: UInt64 = 0

    public init() {}

    /// Notes that a client has sent a value.
    /// - Returns: whether that made the field one that changes, for this client.
    @discardableResult
    public mutating func note(_ name: ByteKey, _ value: UInt64, by client: UInt64) -> Bool {
        time += 1
        if fields[name] == nil {
            makeRoom(for: client)
            fields[name] = Field(client: client)
        }
        let used = time
        return fields[name]!.note(value, by: client, at: used)
    }

    /// Whether the field's value is left out of what separates a client's stored responses.
    public func changes(_ name: ByteKey, for client: UInt64) -> Bool {
        guard let field = fields[name] else { return false }
        if let own = field.clients[client] {
            if own.hasRepeated { return false }
            if own.newValues >= Self.requestCount { return true }
        }
        return !field.hasRepeated && field.witnesses.count >= Self.witnessCount
    }

    /// Takes away the field that was sent least recently, of the client that brought most.
    private mutating func makeRoom(for client: UInt64) {
        guard fields.count >= Self.nameLimit else { return }
        var counts = [client: 1]
        for field in fields.values { counts[field.client, default: 0] += 1 }
        guard let most = counts.max(by: { ($0.value, $0.key) < ($1.value, $1.key) })?.key else { return }
        let candidates = fields.filter { $0.value.client == most }
        guard let name = (candidates.isEmpty ? fields : candidates).min(by: { $0.value.used < $1.value.used })?.key else { return }
        fields[name] = nil
    }
}

extension ChangingFields.Field {
    fileprivate mutating func note(_ value: UInt64, by number: UInt64, at time: UInt64) -> Bool {
        used = time
        if clients[number] == nil, clients.count >= ChangingFields.clientLimit,
            let oldest = clients.min(by: { $0.value.used < $1.value.used })?.key
        {
            clients[oldest] = nil
        }
        var client = clients[number] ?? ChangingFields.Client()
        client.used = time
        defer { clients[number] = client }
        guard !client.hasRepeated else { return false }
        let change = client.take(value)
        switch change {
        case .again:
            hasRepeated = true
            witnesses.remove(number)
        case .same: witnesses.remove(number)
        case .new where client.newValues == ChangingFields.requestCount:
            // Beyond two nobody counts them.
            if witnesses.count < ChangingFields.clientLimit { witnesses.insert(number) }
            return true
        case .new: break
        }
        return false
    }
}

extension ChangingFields.Client {
    fileprivate enum Change {
        case new
        /// The value of the request before. Requests of one second have one time.
        case same
        case again
    }

    fileprivate mutating func take(_ value: UInt64) -> Change {
        if value == last {
            newValues = 1
            return .same
        }
        last = value
        if values.contains(value) {
            (hasRepeated, values, newValues) = (true, [], 0)
            return .again
        }
        if values.count < ChangingFields.valueLimit {
            values.append(value)
        } else {
            values[next] = value
            next = (next + 1) % ChangingFields.valueLimit
        }
        newValues += 1
        return .new
    }
}

// Finds unknown request fields that have a new value in each request: a time, a nonce, a request identifier. Such a field cannot select an
// account, so it does not separate stored responses.
// The requests of one client are evidence for that client. For a client with too few requests, two other clients must show that the field
// changes, and no client may repeat a value. A client that always sends one value may have its own account: that is evidence against a
// changing field. A single repetition may be a retry, so it is outweighed by more clients than one attacker is likely to have.

import HTTPCore

/// Record of the values seen in unknown fields. Not thread-safe: the owner synchronizes access. Values are represented by numbers.
public struct ChangingFields: Sendable {
    /// Number of new values from one client after which a field counts as changing for that client.
    public static let requestCount = 16
    static let nameLimit = 256
    /// Maximum number of remembered clients for each field.
    static let clientLimit = 64
    /// Maximum number of remembered values for each client of a field.
    static let valueLimit = 64
    /// Maximum number of remembered values of all fields and clients; a power of two. It is large because a backend may request thousands
    /// of accounts in turn from one address. A value that is repeated after more values than that counts as new.
    static let rememberedLimit = 16_384
    private static let witnessCount = 2
    /// Number of witnesses that outweigh a client that has sent its only value twice.
    static let witnessesPerDoubter = 8
    /// Consecutive requests with its only value that make a client steady.
    static let steadyCount = 3

    fileprivate struct Client {
        var values: [UInt64] = []
        /// Index in `values` that the next value overwrites once `valueLimit` is reached.
        var next = 0
        /// Number of new values since the client last sent one value twice in a row.
        var newValues = 0
        var last: UInt64?
        /// Consecutive requests with the last value.
        var run = 0
        /// True if a value was sent twice in a row.
        var hasPaused = false
        /// True if a value was sent again after other values.
        var hasRepeated = false
        var used: UInt64 = 0
    }

    fileprivate struct Field {
        /// The client that sent the field first.
        let client: UInt64
        var clients: [UInt64: Client] = [:]
        /// Clients that have proven by their requests that the field changes.
        var witnesses: Set<UInt64> = []
        /// True if any client has sent a value again after sending other values.
        var hasRepeated = false
        var used: UInt64 = 0
    }

    private var fields: [ByteKey: Field] = [:]
    /// Hashes of field, client and value, each at the index given by its low bits. Empty until the first value.
    private var remembered: [Int] = []
    private var time: UInt64 = 0

    public init() {}

    /// Records that a client has sent a value.
    /// - Returns: true if this value makes the field a changing one for this client.
    @discardableResult
    public mutating func note(_ name: ByteKey, _ value: UInt64, by client: UInt64) -> Bool {
        time += 1
        if fields[name] == nil {
            makeSpace(for: client)
            fields[name] = Field(client: client)
        }
        let used = time
        let isKnown = remember(name, value, by: client)
        return fields[name]!.note(value, isKnown: isKnown, by: client, at: used)
    }

    /// Records the value and returns whether the client has sent it before.
    private mutating func remember(_ name: ByteKey, _ value: UInt64, by client: UInt64) -> Bool {
        if remembered.isEmpty { remembered = Array(repeating: 0, count: Self.rememberedLimit) }
        var hasher = Hasher()
        hasher.combine(name)
        hasher.combine(client)
        hasher.combine(value)
        let number = hasher.finalize()
        let slot = number & (Self.rememberedLimit - 1)
        defer { remembered[slot] = number }
        return remembered[slot] == number
    }

    /// Returns whether the field's value is left out of what separates the stored responses for this client.
    public func changes(_ name: ByteKey, for client: UInt64) -> Bool {
        guard let field = fields[name] else { return false }
        if let own = field.clients[client] {
            if own.hasRepeated { return false }
            if own.newValues >= Self.requestCount { return true }
            // This client sends one value for a long time, so other clients are no evidence for it.
            if own.hasPaused, own.values.count < Self.requestCount { return false }
        }
        guard !field.hasRepeated, !field.clients.values.contains(where: \.isSteady) else { return false }
        let doubterCount = field.clients.values.count { $0.run > 1 && $0.values.count == 1 }
        return field.witnesses.count >= min(Self.clientLimit, max(Self.witnessCount, doubterCount * Self.witnessesPerDoubter))
    }

    /// Removes the least recently sent field of the client that introduced the most fields, if `nameLimit` is reached.
    private mutating func makeSpace(for client: UInt64) {
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
    /// - Parameter isKnown: whether the client has sent the value before.
    fileprivate mutating func note(_ value: UInt64, isKnown: Bool, by number: UInt64, at time: UInt64) -> Bool {
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
        let change = client.take(value, isKnown: isKnown)
        switch change {
        case .again:
            hasRepeated = true
            witnesses.remove(number)
        case .same: witnesses.remove(number)
        case .new where client.newValues == ChangingFields.requestCount:
            // More than `witnessCount` witnesses are never needed; the limit only bounds memory.
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
        /// The value equals that of the previous request, for example a time in seconds.
        case same
        case again
    }

    /// True if every remembered request of the client carried one value.
    fileprivate var isSteady: Bool { run >= ChangingFields.steadyCount && values.count == 1 }

    fileprivate mutating func take(_ value: UInt64, isKnown: Bool) -> Change {
        if value == last {
            (newValues, hasPaused) = (1, true)
            run += 1
            return .same
        }
        (last, run) = (value, 1)
        if isKnown || values.contains(value) {
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

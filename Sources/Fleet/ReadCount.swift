// How many entries are asked for at a time. Entries may be long, a reply has a limit, and one that is longer ends the connection: the same asked
// again would end it again.

public struct ReadCount: Hashable, Sendable {
    public enum Failure: Hashable, Sendable {
        /// The reply was more than is taken, or nothing that can be understood.
        case tooMuch
        /// It did not come in time, which may have had other causes.
        case late
    }

    public private(set) var count = Self.most

    /// Of the longest targets that clients send by far (8 KiB, which become 33 in a key), these are half of the longest reply.
    static let most = 256
    /// What is late is not asked for in smaller portions than this: each takes a round trip.
    static let fewestLate = 32

    public init() {}

    public mutating func failed(_ failure: Failure) {
        switch failure {
        case .tooMuch: count = max(1, count / 2)
        case .late: count = max(min(count, Self.fewestLate), count / 2)
        }
    }

    /// A reply has come.
    /// - Parameter isSeeing: all was read before. Until then nothing grows: whoever has never read the whole log begins anew after a failure, and would
    ///   come to the same place in the same way.
    public mutating func came(isSeeing: Bool) {
        guard isSeeing else { return }
        count = min(Self.most, count + max(1, count / 8))
    }
}

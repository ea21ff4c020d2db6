// A confirmation that changes only times is kept next to the stored response as a number of 27 bits, and reaches the disk later than the
// response would. Without it, the response would appear older than it is (RFC 9111 §4.2.3, §4.3.4).

public enum ConfirmationNote {
    /// Bits for the difference between Date and the time of the confirmation, in seconds.
    private static let dateBits: UInt32 = 7
    private static let dateZero: Int64 = 64
    /// Number of quarter seconds for which there are bits: three days.
    private static let timeLimit: Int64 = 1 << 20
    private static let resolution: Int64 = 250

    /// Encodes a confirmation. Later confirmations have larger numbers. Returns nil if it must be written, because the times do not fit.
    /// - Parameters:
    ///   - written: metadata in the store.
    ///   - fresh: metadata after the confirmation.
    public static func encode(written: StoredMetadata, fresh: StoredMetadata) -> UInt32? {
        // The request time counts, because the response delay is part of the age (§4.2.3). It is moved back by the time that the response
        // has aged in other caches.
        let aged = (fresh.ageValue - written.ageValue) * 1000
        let time = fresh.requestTime.milliseconds - written.responseTime.milliseconds - aged
        // Ages have a resolution of one second.
        guard time >= -1000 else { return nil }
        guard time >= resolution else { return 0 }
        // Rounded down: a response may appear older than it is, never younger.
        let steps = time / resolution
        let date = fresh.date.seconds - written.date.seconds - steps * resolution / 1000 + dateZero
        guard steps < timeLimit, 0..<(1 << dateBits) ~= date else { return nil }
        return UInt32(steps) << dateBits | UInt32(date)
    }

    /// Applies a confirmation to metadata that was read from the store.
    /// - Parameter note: encoded confirmation; 0 if there is none.
    public static func apply(_ note: UInt32, to stored: inout StoredMetadata) {
        guard note != 0 else { return }
        let passed = Int64(note >> dateBits) * resolution
        let time = Timestamp(milliseconds: stored.responseTime.milliseconds + passed)
        let difference = Int64(note & ((1 << dateBits) - 1)) - dateZero
        (stored.requestTime, stored.responseTime) = (time, time)
        stored.date = Timestamp(seconds: stored.date.seconds + passed / 1000 + difference)
    }
}

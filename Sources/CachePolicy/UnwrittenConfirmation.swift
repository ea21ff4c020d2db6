// A confirmation (304) that changed only times is not written to the store. Its time is kept in memory next to the stored response, as a
// number of 28 bits. Without it, the response would appear older than it is (RFC 9111 §4.2.3, §4.3.4).

public enum UnwrittenConfirmation {
    /// Bits for the milliseconds since the written response was received, and for the seconds by which its Date is later.
    private static let bits: UInt32 = 14
    private static let limit: Int64 = 1 << 14

    /// Encodes a confirmation. Returns nil if it must be written: more than times has changed, or the numbers do not fit.
    /// - Parameters:
    ///   - written: metadata in the store.
    ///   - fresh: metadata after the confirmation.
    public static func encode(written: StoredMetadata, fresh: StoredMetadata) -> UInt32? {
        // The request time counts, because the response delay is part of the age (§4.2.3). It is moved back by the time that the response
        // has aged in other caches.
        let aged = (fresh.ageValue - written.ageValue) * 1000
        let time = fresh.requestTime.milliseconds - written.responseTime.milliseconds - aged
        let date = fresh.date.seconds - written.date.seconds
        // Ages have a resolution of one second.
        guard -1000..<limit ~= time, 0..<limit ~= date else { return nil }
        return UInt32(max(0, time)) << bits | UInt32(date)
    }

    /// Applies a confirmation to metadata that was read from the store.
    /// - Parameter note: encoded confirmation; 0 if there is none.
    public static func apply(_ note: UInt32, to stored: inout StoredMetadata) {
        guard note != 0 else { return }
        let time = stored.responseTime.milliseconds + Int64(note >> bits)
        stored.requestTime = Timestamp(milliseconds: time)
        stored.responseTime = Timestamp(milliseconds: time)
        stored.date = Timestamp(seconds: stored.date.seconds + Int64(note & UInt32(limit - 1)))
    }
}

// A confirmation (304) that was not written down, since it brought nothing but its own time: when it came, as a number of 28 bits that lies beside
// the copy in memory. Without it the copy would look older than it is, by as long as confirmations are not written (RFC 9111 §4.2.3, §4.3.4).

public enum UnwrittenConfirmation {
    /// Milliseconds since the written response came, and seconds by which its Date is later.
    private static let bits: UInt32 = 14
    private static let limit: Int64 = 1 << 14

    /// nil where it must be written: because more has changed, or the numbers do not fit.
    /// - Parameters:
    ///   - written: as it lies in the store.
    ///   - fresh: what the confirmation has made of it.
    public static func encode(written: StoredMetadata, fresh: StoredMetadata) -> UInt32? {
        // When it was asked for, since its delay counts as age (§4.2.3); earlier by as much as it has aged elsewhere meanwhile.
        let aged = (fresh.ageValue - written.ageValue) * 1000
        let time = fresh.requestTime.milliseconds - written.responseTime.milliseconds - aged
        let date = fresh.date.seconds - written.date.seconds
        // Ages are told in whole seconds.
        guard -1000..<limit ~= time, 0..<limit ~= date else { return nil }
        return UInt32(max(0, time)) << bits | UInt32(date)
    }

    /// Brings up to date what was read from the store.
    /// - Parameter note: 0 where there was none.
    public static func apply(_ note: UInt32, to stored: inout StoredMetadata) {
        guard note != 0 else { return }
        let time = stored.responseTime.milliseconds + Int64(note >> bits)
        stored.requestTime = Timestamp(milliseconds: time)
        stored.responseTime = Timestamp(milliseconds: time)
        stored.date = Timestamp(seconds: stored.date.seconds + Int64(note & UInt32(limit - 1)))
    }
}

// Where an entry lies, for good: in which log, of which primary. Kept with a purge that is pending, so that a process that begins anew finds it there.

public struct LogPlace: Hashable, Sendable {
    /// As those of `LogInfo`.
    public var epoch: UInt64
    public var primary: [UInt8]
    public var position: LogPosition

    public init(epoch: UInt64, primary: [UInt8], position: LogPosition) {
        (self.epoch, self.primary, self.position) = (epoch, primary, position)
    }

    /// Whether it was given by this primary for this log, which has not gone back since.
    func isGiven(by log: LogInfo) -> Bool { epoch == log.epoch && primary == log.primary && position <= log.last }
}

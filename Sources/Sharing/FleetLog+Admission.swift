// Admission to the log (`FleetAdmission`), and entries sealed with keys of unknown nodes.

import Engine
import Fleet

extension FleetLog {
    /// Delay before a refused node may write the first value, in milliseconds. The fleet's own nodes write it within two seconds.
    private static let refusedMilliseconds: Int64 = 5_000

    /// - Parameters:
    ///   - reply: reply to `FleetSettings.admissionQuestion`.
    ///   - time: the engine's time at that moment.
    ///   - isConnected: whether the log is already followed.
    ///   - then: called once this node is admitted: at once if it is connected, otherwise after the value is written.
    func admit(_ reply: EngineReply, at time: Int64, isConnected: Bool, then: @escaping (FleetLog) -> Void) {
        guard reply.text != nil || reply == .nothing else { return lose([reply]) }
        let served = node?.served ?? [:]
        switch FleetAdmission.judge(reply.text, at: keys.admission, by: settings.secrets, serving: served, fleetNow: time) {
        case .admitted(let admission):
            self.admission = admission
            then(self)
        case .write(_, _, true) where refusedAt.map({ now - $0 < Self.refusedMilliseconds }) ?? false:
            lose(for: figures.trouble ?? .otherSecret)
        case .write(let value, let admission, let isFirst):
            self.admission = admission
            write(value, isFirst: isFirst, then: isConnected ? nil : then)
            if isConnected { then(self) }
        case .otherSecret: refuse(.otherSecret)
        case .otherUpstream: refuse(.otherUpstream)
        }
    }

    private func refuse(_ trouble: LogTrouble) {
        refusedAt = now
        lose(for: trouble)
    }

    /// - Parameter then: called after the write; nil if the next reading of the value detects whether it was written.
    private func write(_ value: [UInt8], isFirst: Bool, then: ((FleetLog) -> Void)?) {
        let words = [Array("SET".utf8), keys.admission, value] + (isFirst ? [Array("NX".utf8)] : [])
        reader.sendAll(
            [EngineCommand(words, key: keys.log)], patienceMilliseconds: Self.patience,
            then: inSession { log, replies in
                guard let then else { return }
                switch replies[0] {
                case .status: then(log)
                // If two nodes write the first value at once, one fails and reads the other's value.
                case .nothing: log.reconnect()
                default: log.lose(replies)
                }
            })
    }

    /// Returns whether the key of an entry belongs to no node of the fleet. Returns false during a catch-up, because the entry may be an
    /// altered one whose sender no longer runs.
    func isForeign(_ fields: [LogField], at position: LogPosition) -> Bool {
        guard let id = FleetSettings.keyID(fields), !settings.secrets.all.contains(where: { $0.id == id }) else { return false }
        if case .catchingUp = follower.state { return false }
        return admission?.isForeign(id, at: position) == true
    }

    /// Another node may have written a new key before its first entry, so the value is read before an entry is ignored.
    func confirmKeys(of entries: [(position: LogPosition, fields: [LogField])], then: @escaping (FleetLog) -> Void) {
        guard entries.contains(where: { isForeign($0.fields, at: $0.position) }) else { return then(self) }
        reader.sendAll(
            [settings.admissionQuestion, EngineCommand("TIME")], patienceMilliseconds: Self.patience,
            then: inSession { log, replies in
                guard let time = Self.time(replies[1]) else { return log.lose(replies) }
                // Without a value the fleet's keys are unknown, and the entry may have any meaning.
                if replies[0] == .nothing { log.admission = nil }
                log.admit(replies[0], at: time, isConnected: true, then: then)
            })
    }

    /// Sends a greeting after a foreign entry. That entry may be an altered entry of this node; the greeting shows other nodes that one is
    /// missing.
    func sendHelloAfterForeign() {
        guard logWriter.lastSequence > 0 else { return }
        if let lastHello, now - lastHello < Self.helloMilliseconds { return }
        lastHello = now
        handle(LogWriter.Event.sendHello)
    }

    private static let helloMilliseconds: Int64 = 1_000
}

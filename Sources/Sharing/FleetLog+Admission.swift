// Whether this node may follow the log and append to it, and by whose keys entries are sealed: the value beside the epoch (`FleetAdmission`).

import Engine
import Fleet

extension FleetLog {
    /// How long a node that was refused waits before it makes the value where there is none: the fleet's nodes make it within two seconds.
    private static let refusedMilliseconds: Int64 = 5_000

    /// Where this node is refused, the log is lost with the cause.
    /// - Parameters:
    ///   - reply: to `FleetSettings.admissionQuestion`.
    ///   - time: the engine's, of the same moment.
    ///   - isConnected: the log is followed already. Otherwise nothing goes on before the value is there.
    ///   - then: called where this node is admitted: at once, or, where it has to write the value first, once it has met the log again.
    func admit(_ reply: EngineReply, at time: Int64, isConnected: Bool, then: (FleetLog) -> Void) {
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
            write(value, isFirst: isFirst, meets: !isConnected)
            if isConnected { then(self) }
        case .otherSecret: refuse(.otherSecret)
        case .otherUpstream: refuse(.otherUpstream)
        }
    }

    private func refuse(_ trouble: LogTrouble) {
        refusedAt = now
        lose(for: trouble)
    }

    /// - Parameter meets: the log is met again then. Otherwise the next look finds out whether it was written.
    private func write(_ value: [UInt8], isFirst: Bool, meets: Bool) {
        let words = [Array("SET".utf8), keys.admission, value] + (isFirst ? [Array("NX".utf8)] : [])
        reader.sendAll(
            [EngineCommand(words, key: keys.log)], patienceMilliseconds: Self.patience,
            then: inSession { log, replies in
                guard meets else { return }
                // Of two that write for the first time one has failed, and reads the other's value.
                if replies[0].failure != nil { log.lose(replies) } else { log.meet() }
            })
    }

    // MARK: Entries

    /// Whether an entry that does not open is by a key that no node of the fleet has. Of what was appended while this node was away that is not believed:
    /// who owns the engine could have altered a true entry since, whose sender has gone. What comes now its sender reads as well (`greetAfterForeign`).
    func isForeign(_ fields: [LogField], at position: LogPosition) -> Bool {
        guard let id = FleetSettings.keyID(fields), !settings.secrets.all.contains(where: { $0.id == id }) else { return false }
        if case .catchingUp = follower.state { return false }
        return admission?.isForeign(id, at: position) == true
    }

    /// A node may have got another secret since this node looked last, and has written so before its first entry: that is asked before an entry counts as
    /// nothing.
    func confirmKeys(of entries: [(position: LogPosition, fields: [LogField])], then: @escaping (FleetLog) -> Void) {
        guard entries.contains(where: { isForeign($0.fields, at: $0.position) }) else { return then(self) }
        reader.sendAll(
            [settings.admissionQuestion, EngineCommand("TIME")], patienceMilliseconds: Self.patience,
            then: inSession { log, replies in
                guard let time = Self.time(replies[1]) else { return log.lose(replies) }
                // Without a value nothing is known of keys, and the entry may mean anything.
                if replies[0] == .nothing { log.admission = nil }
                log.admit(replies[0], at: time, isConnected: true, then: then)
            })
    }

    /// An altered entry of this node may look like a foreign one: what this node says of its number lets others see that one is missing.
    func greetAfterForeign() {
        guard logWriter.lastSequence > 0 else { return }
        if let greetedAt, now - greetedAt < Self.greetingMilliseconds { return }
        greetedAt = now
        handle(LogWriter.Event.greet)
    }

    private static let greetingMilliseconds: Int64 = 1_000
}

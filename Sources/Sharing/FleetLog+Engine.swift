// Commands for the log, and the handling of their replies.

import Engine
import Fleet
import Logging
import Reactor

extension FleetLog {
    private static let holdMilliseconds: Int64 = 1_000
    static let patience: Int64 = 1_000
    /// Delay between a reply with entries and the next read, in milliseconds.
    private static let gatheringMilliseconds: Int64 = 5
    private static let restMilliseconds = 250
    /// Maximum number of entries. Entries are trimmed by age with each append, and by number at this interval.
    private static let entryLimit = 1_000_000
    private static let trimInterval: UInt64 = 1_000

    func reconnect() {
        guard isRunning, !isResting else { return }
        logConnection = nil
        // Replies to earlier commands are ignored from now on.
        session += 1
        isResting = true
        loop.schedule(after: .milliseconds(Self.restMilliseconds)) { [weak self] in
            self?.isResting = false
            self?.connect()
        }
    }

    /// Ignores the reply if the connection to the log was established again meanwhile.
    func inSession(_ body: @escaping (FleetLog, [EngineReply]) -> Void) -> ([EngineReply]) -> Void {
        let asked = session
        return { [weak self] replies in
            guard let self, isRunning, session == asked else { return }
            body(self, replies)
        }
    }

    func connect() {
        guard isRunning else { return }
        let asked = now
        reader.sendAll(
            [newEpoch(Array("NX".utf8))] + questions(hold: 0), patienceMilliseconds: Self.patience,
            then: inSession { log, replies in
                log.connected(Array(replies.dropFirst()), made: replies[0], asked: asked)
            })
    }

    private func newEpoch(_ condition: [UInt8]...) -> EngineCommand {
        let epoch = Array(String(UInt64.random(in: 1 ... .max), radix: 16).utf8)
        return EngineCommand([Array("SET".utf8), keys.epoch, epoch] + condition, key: keys.log)
    }

    /// Replaces the epoch. The result is read at the next connection. If several nodes write at once, the last one wins.
    func renewEpoch() {
        logger.warning("the fleet's log has no epoch, or one that was replaced before: a new epoch is set")
        reader.sendAll([newEpoch()], patienceMilliseconds: Self.patience) { _ in }
    }

    private func questions(hold: Int64) -> [EngineCommand] {
        [
            EngineCommand([Array("GET".utf8), keys.epoch], key: keys.log, holdMilliseconds: hold), EngineCommand("TIME"),
            EngineCommand("INFO", "server"), EngineCommand("INFO", "replication"),
            EngineCommand([Array("XINFO".utf8), Array("STREAM".utf8), keys.log], key: keys.log), settings.admissionQuestion,
        ]
    }

    private func info(_ replies: [EngineReply]) -> LogInfo? {
        guard let epoch = Self.epoch(replies[0]), let server = replies[2].text.map(InfoText.init),
            let replication = replies[3].text.map(InfoText.init), let stream = Self.stream(replies[4])
        else { return nil }
        figures.replicas = Self.replicas(replication)
        return LogInfo(
            epoch: epoch, primary: Self.primary(server, replication), last: stream.last, first: stream.first,
            lastDeleted: stream.lastDeleted, count: stream.count, added: stream.added)
    }

    /// - Parameter made: reply to the command that sets a missing epoch.
    private func connected(_ replies: [EngineReply], made: EngineReply, asked: Int64) {
        noteServer()
        if let version = replies[2].text.map(InfoText.init)?.outdatedVersion { return lose(for: .outdated(version, figures.server)) }
        // Without an epoch the other replies have no meaning.
        if replies[0] == .nothing, made.failure != nil { return lose([made]) }
        let failure = replies.lazy.compactMap(\.failure).first
        guard failure == nil, let time = Self.time(replies[1]), let info = info(replies) else {
            if Self.isNoEpoch(replies[0]) { renewEpoch() }
            return lose(replies)
        }
        admit(replies[5], at: time, isConnected: false) { $0.connected(info, at: time, asked: asked) }
    }

    private func connected(_ info: LogInfo, at time: Int64, asked: Int64) {
        figures.trouble = nil
        let fleet = node?.change { $0.clock.latest(now) } ?? nil
        note(time, asked: asked)
        (logConnection, logPrimary) = (reader.connection(forKey: keys.log), info.primary)
        handle(.connected(info, fleetMilliseconds: fleet))
        trimByAge(info)
    }

    /// Reads the state again, on the same connection.
    func readInfo() {
        reader.sendAll(
            questions(hold: Self.holdMilliseconds), patienceMilliseconds: 2 * Self.holdMilliseconds,
            then: inSession { log, replies in
                guard log.logConnection == log.reader.connection(forKey: log.keys.log), let info = log.info(replies),
                    let time = Self.time(replies[1])
                else { return log.lose(replies) }
                log.admit(replies[5], at: time, isConnected: true) { log in
                    log.handle(LogFollower.Event.infoRead(info))
                    log.handle(LogWriter.Event.replicas(log.figures.replicas))
                    log.trimByAge(info)
                }
            })
    }

    private func noteServer() {
        figures.server = reader.server(forKey: keys.log)
        figures.slot = reader.isCluster ? KeySlot.of(keys.log) : nil
    }

    func lose(_ replies: [EngineReply] = []) { lose(for: trouble(replies)) }

    func lose(for trouble: LogTrouble) {
        figures.trouble = trouble
        handle(LogFollower.Event.lost)
        handle(LogWriter.Event.lost)
        logDisconnection()
        reconnect()
    }

    private func trouble(_ replies: [EngineReply]) -> LogTrouble {
        // An open circuit breaker is a consequence and not a cause.
        guard let failure = replies.lazy.compactMap(\.failure).first(where: { $0 != .breakerOpen }) else {
            if let open = reader.openFailure(forKey: keys.log) { return .failed(open.failure, open.server) }
            if let logConnection, logConnection != reader.connection(forKey: keys.log) { return .failed(.connectionLost, figures.server) }
            let isSaid = replies.contains { $0.failure == nil }
            return isSaid ? .notUnderstood : .failed(.connectionLost, figures.server)
        }
        if failure == .notCluster { return .failed(failure, nil) }
        return .failed(failure, figures.server ?? reader.openFailure(forKey: keys.log)?.server)
    }

    private func note(_ engine: Int64, asked: Int64) {
        let sample = FleetClock.Sample(asked: asked, answered: now, engine: engine)
        let finding = node?.change { $0.clock.note(sample) }
        if finding == .jumped { handle(.clockJumped) }
    }

    /// Reads entries from a position, after a short delay that collects entries arriving together.
    func read(from position: LogPosition) {
        let rest = nextReading - now
        guard follower.isUpToDate, rest > 0 else { return readNow(from: position) }
        let asked = session
        loop.schedule(after: .milliseconds(Int(rest))) { [weak self] in
            guard let self, isRunning, session == asked else { return }
            readNow(from: position)
        }
    }

    /// Reads entries. Once a second, which is the longest wait for entries, it also reads epoch and time.
    private func readNow(from position: LogPosition) {
        let isChecking = !follower.isUpToDate || now - lastCheck >= Self.holdMilliseconds
        if isChecking { lastCheck = now }
        let checks = [EngineCommand([Array("GET".utf8), keys.epoch], key: keys.log), EngineCommand("TIME")]
        let reading = reading(from: position, hold: Self.holdMilliseconds - (now - lastCheck))
        let patience = Self.holdMilliseconds + 400
        let asked = loop.time.wallMilliseconds
        reader.sendAll(
            (isChecking ? checks : []) + [reading], patienceMilliseconds: patience,
            then: inSession { log, replies in
                // After a suspension of the machine the reply is outdated; the monotonic clock did not advance during it.
                guard log.loop.time.wallMilliseconds - asked <= patience else { return log.lose(for: .disconnected(.stopped)) }
                log.came(replies)
            })
    }

    /// Returns the read command. Entries that already exist are read without waiting.
    private func reading(from position: LogPosition, hold: Int64) -> EngineCommand {
        var words = ["XREAD", "COUNT", String(readCount.count)]
        var hold = hold
        if case .catchingUp = follower.state { hold = 0 } else { words += ["BLOCK", String(hold)] }
        words.append("STREAMS")
        return EngineCommand(words.map { Array($0.utf8) } + [keys.log, Array(position.text.utf8)], key: keys.log, holdMilliseconds: hold)
    }

    private func came(_ replies: [EngineReply]) {
        guard !replies.contains(where: { $0.failure != nil }), logConnection == reader.connection(forKey: keys.log) else {
            noteUnread(replies.last?.failure)
            return lose(replies)
        }
        readCount.came(isUpToDate: follower.isUpToDate)
        if replies.count > 1 {
            let epoch = Self.epoch(replies[0])
            guard epoch == follower.epoch else { return handle(.epoch(epoch)) }
            guard let time = Self.time(replies[1]).flatMap({ UInt64(exactly: $0) }) else { return lose(replies) }
            let asked = session
            handle(.engineTime(time))
            guard session == asked else { return }
        }
        switch replies.last ?? .nothing {
        case .nothing: handle(.nothingNew)
        case .list(let streams):
            guard let entries = Self.entries(streams) else { fallthrough }
            confirmKeys(of: entries) { $0.take(entries) }
        default: lose(replies)
        }
    }

    private func noteUnread(_ failure: EngineFailure?) {
        switch failure {
        case .protocolError: readCount.failed(.tooMuch)
        // A blocking read without entries may be late for other reasons than the number of entries.
        case .timedOut: if case .catchingUp = follower.state { readCount.failed(.late) }
        default: break
        }
    }

    private func take(_ entries: [(position: LogPosition, fields: [LogField])]) {
        nextReading = now + Self.gatheringMilliseconds
        let positioned = entries.map { PositionedEntry($0.position, open($0.fields, at: $0.position)) }
        for one in positioned {
            guard let node = one.entry.origin?.node else { continue }
            if figures.nodes[node] == nil, figures.nodes.count >= 4_096 { figures.nodes = [:] }
            figures.nodes[node] = one.position.milliseconds
        }
        if let last = positioned.last {
            figures.position = last.position
            figures.lagMilliseconds = Self.lag(of: last.position, fleetNow: fleetNow)
        }
        handle(.entries(positioned))
    }

    private func open(_ fields: [LogField], at position: LogPosition) -> LogEntry {
        if let entry = settings.open(fields) { return entry }
        let isForeign = isForeign(fields, at: position)
        noteUnopened(isForeign: isForeign)
        return isForeign ? .foreign : .unopened
    }

    func connectWriter(_ fence: Fence?, isNewPrimary: Bool) {
        let questions = [
            EngineCommand([Array("EXISTS".utf8), keys.log], key: keys.log), EngineCommand("INFO", "server"),
            EngineCommand("INFO", "replication"),
        ]
        writer.sendAll(
            questions, patienceMilliseconds: Self.patience,
            then: inSession { log, replies in
                guard !replies.contains(where: { $0.failure != nil }) else { return log.lose(replies) }
                let (server, replication) = (InfoText(replies[1].text ?? []), InfoText(replies[2].text ?? []))
                guard Self.primary(server, replication) == log.logPrimary else {
                    log.connectAnew()
                    return log.lose(for: .disconnected(.unheard))
                }
                log.writerConnection = log.writer.connection(forKey: log.keys.log)
                let replicas = log.figures.replicas
                log.handle(.connected(isNewPrimary: isNewPrimary, fence: fence, replicas: replicas))
            })
    }

    func send(_ entries: [LogWriter.Outgoing]) {
        var commands = entries.map(command)
        let before = figures.appended
        figures.appended += UInt64(entries.count)
        if before / Self.trimInterval != figures.appended / Self.trimInterval {
            let words = ["MAXLEN", "~", String(Self.entryLimit)].map { Array($0.utf8) }
            commands.append(EngineCommand([Array("XTRIM".utf8), keys.log] + words, key: keys.log))
        }
        writer.sendAll(
            commands, patienceMilliseconds: Self.patience,
            then: inSession { log, replies in
                // It is unknown whether the entries were appended, so they are sent again.
                guard log.writerConnection == log.writer.connection(forKey: log.keys.log) else { return log.lose() }
                let refusal = replies.prefix(entries.count).lazy.compactMap(\.failure).first
                // The log itself may fill the engine, and no append trims it while the engine refuses writes.
                if refusal == .full { log.trim(before: log.trimming.refused(fleetNow: log.fleetNow, now: log.now)) }
                if replies.count > entries.count { log.noteTrimming(replies[entries.count].failure) }
                let answers = zip(entries, replies).map { Self.reply($1, at: $0.position) }
                guard let all = answers as? [LogWriter.Reply] else { return log.lose(replies) }
                log.handle(.answered(all))
                log.listen(to: all, refusal)
            })
    }

    /// Expects to read each appended entry. A refusal disconnects.
    private func listen(to replies: [LogWriter.Reply], _ refusal: EngineFailure?) {
        let positions = replies.compactMap { if case .appended(let position) = $0 { position } else { nil } }
        if let last = positions.last { handle(LogFollower.Event.appended(last)) }
        guard replies.contains(.refused) else { return }
        lastRefusal = refusal
        handle(LogFollower.Event.refused)
    }

    /// Reconnects, because the address may lead to several servers.
    func connectAnew() { for client in [reader, writer] { client.connectAnew(forKey: keys.log) } }

    private func command(_ outgoing: LogWriter.Outgoing) -> EngineCommand {
        let oldest = max(0, (fleetNow ?? 0) - settings.keep)
        var words = [Array("XADD".utf8), keys.log, Array("MINID".utf8), Array("~".utf8), Array(String(oldest).utf8)]
        words.append(Array((outgoing.position?.text ?? "*").utf8))
        for field in settings.seal(outgoing.entry) { words += [field.name, field.value] }
        return EngineCommand(words, key: keys.log)
    }

    /// - Parameter position: requested id of the entry; nil if the engine assigns it.
    /// - Returns: nil if the outcome is unknown.
    static func reply(_ reply: EngineReply, at position: LogPosition?) -> LogWriter.Reply? {
        switch reply {
        case .bytes(let text): LogPosition(text: text).map { .appended($0) }
        // Other errors (BUSY) do not prove that higher ids exist. Treating them so would let later entries get ids that were used before.
        case .error(let text) where position != nil && String(decoding: text, as: UTF8.self).contains(" ID"): .alreadyBeyond
        case .error, .failed(.denied), .failed(.commandForbidden), .failed(.keyForbidden), .failed(.full), .failed(.readOnly),
            .failed(.clusterDown):
            .refused
        case .failed, .status, .integer, .nothing, .list: nil
        }
    }

    private func trimByAge(_ info: LogInfo) {
        trim(before: trimming.noteInfo(first: info.first, fleetNow: fleetNow, now: now))
    }

    var fleetNow: Int64? { node?.change { $0.clock.now(now) } ?? nil }

    /// Trims the log. XTRIM is permitted when memory is full.
    private func trim(before oldest: LogPosition?) {
        guard let oldest else { return }
        let words = ["MINID", "~", oldest.text].map { Array($0.utf8) }
        writer.sendAll(
            [EngineCommand([Array("XTRIM".utf8), keys.log] + words, key: keys.log)], patienceMilliseconds: Self.patience,
            then: inSession { log, replies in log.noteTrimming(replies[0].failure) })
    }

    func waitForReplica() {
        let wait = EngineCommand(["WAIT", "1", "50"].map { Array($0.utf8) }, key: keys.log, holdMilliseconds: 50)
        writer.sendAll(
            [wait], patienceMilliseconds: Self.patience,
            then: inSession { log, replies in
                guard log.writerConnection == log.writer.connection(forKey: log.keys.log), let count = replies[0].integer else {
                    return log.lose(replies)
                }
                log.handle(.waited(replicas: Int(clamping: count)))
            })
    }
}

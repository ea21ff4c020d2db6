// Whether this node's secrets open what others have said in the log: entries as the engine gives them.

import Engine
import Fleet
import Testing

@testable import Sharing

@Suite("A sample of the log")
struct LogSampleTests {
    private static func settings(_ secret: String) throws -> FleetSettings {
        let file = Array(String(repeating: secret, count: 32).utf8)
        return FleetSettings(engine: EngineSettings(servers: []), name: "shop", secrets: try FleetSecrets(file: file))
    }

    private static func bytes(_ text: String) -> EngineReply { .bytes(Array(text.utf8)) }

    /// As XREAD gives it.
    private static func reply(_ writers: [FleetSettings]) -> EngineReply {
        let entries = writers.enumerated().map { number, writer -> EngineReply in
            let entry = LogEntry(LogMessage(.target, argument: [1]), origin: LogOrigin(node: 7, sequence: UInt64(number)))
            return .list([bytes("\(number + 1)-0"), .list(writer.seal(entry).flatMap { [.bytes($0.name), .bytes($0.value)] })])
        }
        return .list([.list([bytes("cistern:shop:{log}"), .list(entries)])])
    }

    @Test("what nodes with another secret have said does not open")
    func unopened() throws {
        let (one, other) = (try Self.settings("a"), try Self.settings("b"))
        #expect(one.sample(Self.reply([one, one])) == LogSample(entries: 2, unopened: 0))
        #expect(one.sample(Self.reply([one, other])) == LogSample(entries: 2, unopened: 1))
        #expect(other.sample(Self.reply([one])) == LogSample(entries: 1, unopened: 1))
        for reply in [.nothing, .failed(.denied), Self.reply([])] as [EngineReply] { #expect(one.sample(reply) == nil) }
    }

    @Test("the last hour is read, of a log that has anything")
    func reading() throws {
        let one = try Self.settings("a")
        func end(_ last: String, _ length: Int64) -> EngineReply {
            .list([Self.bytes("last-generated-id"), Self.bytes(last), Self.bytes("length"), .integer(length)])
        }
        let words = ["XREAD", "COUNT", "100", "STREAMS", "cistern:shop:{log}"]
        func reading(_ start: String) -> EngineCommand { EngineCommand((words + [start]).map { Array($0.utf8) }, key: one.logKey) }
        #expect(one.logReading(end("3600005-3", 2)) == reading("5-0"))
        #expect(one.logReading(end("5-3", 2)) == reading("0-0"))
        for reply in [end("5-3", 0), .error(Array("ERR no such key".utf8)), .failed(.timedOut)] { #expect(one.logReading(reply) == nil) }
    }
}

// A store on a disk that refuses writes. Responses are served and not reported as stored. Each output names the cause. The store recovers
// without a restart.

import Glibc
import JSON
import Notifications
import Reactor
import ReverseProxy
import TestSupport
import Testing

@testable import CacheStore

@Suite("A store whose disk refuses writes", .play, .clientProtocols, .upstreams)
struct RefusingStoreTests {
    /// The disk of a store, with an errno for each write.
    private final class Disk: Sendable {
        let error = Mutex<Int32>(0)

        func fail(_ settings: inout ProxySettings) {
            settings.store?.retryMilliseconds = 10
            // All times of the test's clock are later than 0.
            settings.store?.now = { 0 }
            settings.store?.write = { [self] descriptor, bytes, offset in
                let error = error.withLock { $0 }
                return error != 0 || WholeWrite.write(bytes, to: descriptor, at: offset) == bytes.count ? error : EIO
            }
        }
    }

    struct Failure: CustomStringConvertible, Sendable {
        let error: Int32
        let cause: String
        let words: String
        var description: String { cause }
    }

    private func why(_ play: ProxyPlay) throws -> String {
        let content = try play.admin("GET", "/-/why?last=1").text
        let value = JSONValue(Array(content.utf8))
        return value?["exchanges"]?.array?.first?["explanation"]?.array?.compactMap(\.string).joined(separator: " ") ?? content
    }

    @Test("a purge that the disk refuses is effective in memory and is reported as not written", arguments: ["target=/a", "all=true"])
    func purge(selection: String) throws {
        let disk = Disk()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }) { disk.fail(&$0) }
        for target in ["/a", "/b"] { #expect(try play.get(target).status == 200) }
        play.flushStore()
        disk.error.withLock { $0 = EROFS }
        for soft in ["1", "0"] {
            let refused = try play.admin("POST", "/-/purge?\(selection)&soft=\(soft)")
            #expect(refused.status == 202 && refused.text.contains("not_written"), "\(refused.text)")
        }
        #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == false)
        disk.error.withLock { $0 = 0 }
        #expect(try play.waitFor("cistern_store_writable", 1))
        let written = try play.admin("POST", "/-/purge?\(selection)")
        #expect(written.status == 200 && !written.text.contains("not_written"), "\(written.text)")
    }

    @Test(
        "unwritten responses are not reported as stored, and every output gives the reason until a write succeeds",
        arguments: [
            Failure(error: ENOSPC, cause: "no_space", words: "its disk is full (No space left on device)"),
            Failure(error: EDQUOT, cause: "quota", words: "the disk quota of this user is used up (Disk quota exceeded)"),
            Failure(error: EROFS, cause: "read_only", words: "its file system is read-only (Read-only file system)"),
            Failure(error: EIO, cause: "io_error", words: "its disk reports input/output errors (Input/output error)"),
        ])
    func refused(_ failure: Failure) throws {
        let disk = Disk()
        let origin = ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }
        let play = try ProxyPlay(origin) { disk.fail(&$0) }
        #expect(try play.get("/before")["Cache-Status"]?.contains("; stored") == true)
        play.flushStore()
        disk.error.withLock { $0 = failure.error }
        // The first response reveals the failure to the writer, and stays in memory.
        #expect(try play.get("/a")["Cache-Status"]?.contains("; stored") == true)
        play.flushStore()
        for target in ["/before", "/a"] { #expect(try play.get(target)["Cache-Status"]?.contains("hit") == true) }
        let second = try play.get("/b")
        #expect(second.status == 200 && second["Cache-Status"]?.contains("; stored") == false)
        #expect(second["Cache-Status"]?.contains("detail=store_refused") == true)
        #expect(try why(play).contains("Not stored: the store cannot write to its directory: \(failure.words)."))
        #expect(try play.get("/b")["Cache-Status"]?.contains("hit") == false)
        #expect(try play.metric("cistern_not_stored_total{reason=\"store_refused\"}") == 2)
        #expect(try play.metric("cistern_store_writable") == 0)
        #expect(try play.metric("cistern_store_write_errors_total{cause=\"\(failure.cause)\"}") ?? 0 > 0)
        let stats = try play.admin("GET", "/-/stats").text
        #expect(stats.contains("The store is not writable: \(failure.words), so new responses are not stored."))
        #expect(try play.admin("GET", "/-/status").text.contains("refuses new responses: \(failure.words)"))
        disk.error.withLock { $0 = 0 }
        #expect(try play.waitFor("cistern_store_writable", 1))
        #expect(try play.get("/c")["Cache-Status"]?.contains("; stored") == true)
        play.flushStore()
        #expect(try play.metric("cistern_store_pending_bytes") == 0)
        #expect(try play.get("/a")["Cache-Status"]?.contains("hit") == true)
    }

    @Test("a refusal that lasts a minute is notified, and its end")
    func notified() throws {
        let disk = Disk()
        let play = try ProxyPlay(ScriptedOrigin { _ in [.json("{}", ["Cache-Control: max-age=600"])] }) { settings in
            disk.fail(&settings)
            settings.notify = [NotificationTarget("t", .command(["/bin/true"]))]
        }
        disk.error.withLock { $0 = ENOSPC }
        _ = try play.get("/a")
        play.flushStore()
        func sent(_ event: String) -> String { "cistern_notifications_sent_total{target=\"t\",event=\"\(event)\"}" }
        #expect(try play.metric(sent("store_unwritable")) == 0)
        #expect(try play.waitFor(sent("store_unwritable"), 1, advancing: .seconds(1)))
        disk.error.withLock { $0 = 0 }
        #expect(try play.waitFor(sent("store_writable"), 1, advancing: .seconds(1)))
    }
}

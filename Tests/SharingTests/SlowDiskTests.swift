// Tests that a slow disk delays only the persisted position and its report, not the entries of other nodes.

import Fleet
import Reactor
import TestSupport
import Testing

@testable import Sharing

@Suite("A slow disk")
struct SlowDiskTests {
    @Test(
        "messages are applied at once, but the position is saved only after the changes are on disk", .realTime,
        .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
    func appliedBeforeSaved() throws {
        try FleetLogPlay.run { play throws in
            #expect(try eventually { play.files.keptPosition() != nil })
            let before = play.handed.all.count
            play.handed.hold()
            for number in 1...3 {
                play.redis.direct.ask("XADD cistern:play:{log} * k v")
                #expect(try eventually { play.handed.all.count == before + number })
            }
            let held = play.files.keptPosition()?.kept.position ?? .beginning
            #expect(held < play.figures.position)
            play.handed.release()
            #expect(try eventually { play.files.keptPosition()?.kept.position == play.figures.position })
        }
    }

    @Test(
        "the position for a process that takes over is saved at once", .realTime,
        .enabled(if: RedisProcess.isInstalled, "redis-server is missing: make test-packages installs it"))
    func savedForSuccessor() throws {
        try FleetLogPlay.run { play throws in
            #expect(try eventually { play.files.keptPosition() != nil })
            let before = play.handed.all.count
            play.redis.direct.ask("XADD cistern:play:{log} * k v")
            #expect(try eventually { play.handed.all.count == before + 1 })
            // During the first call, the node may not know yet that the entry is applied.
            for _ in 0..<2 {
                let saved = Gate()
                play.node.log.keepPosition { saved.open() }
                saved.pass()
            }
            #expect(play.files.keptPosition()?.kept.position == play.figures.position)
        }
    }

    @Test("while a file is being written only the last pending version counts, and all callers are notified in order")
    func last() throws {
        let loop = EventLoop(label: "files", time: SystemTime.shared)
        loop.start()
        let (begun, gate, ended) = (Gate(), Gate(), Gate())
        let (written, told) = (Mutex<[Int]>([]), Mutex<[Int]>([]))
        let keeper = FileKeeper("file", loop: loop)
        @Sendable func write(_ number: Int) -> Bool {
            if number == 1 {
                begun.open()
                gate.pass()
            }
            written.withLock { $0.append(number) }
            return number != 4
        }
        @Sendable func keep(_ number: Int) {
            keeper.keep({ write(number) }, then: { isKept in told.withLock { $0.append(isKept ? number : -number) } })
        }
        loop.execute { keep(1) }
        begun.pass()
        loop.execute {
            for number in 2...4 { keep(number) }
            keeper.whenWritten { told.withLock { $0.append(0) } }
            gate.open()
        }
        #expect(try eventually { told.withLock { $0 } == [1, -2, -3, -4, 0] })
        #expect(written.withLock { $0 } == [1, 4])
        // `finish` waits for the disk and calls all remaining handlers.
        loop.execute {
            keeper.whenWritten { told.withLock { $0.append(9) } }
            keep(5)
            keep(6)
            keeper.finish()
            #expect(told.withLock { $0 }.suffix(3) == [9, 5, 6])
            #expect(written.withLock { $0 }.last == 6)
            loop.stop { ended.open() }
        }
        ended.pass()
    }
}

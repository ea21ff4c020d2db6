// Tables of both sides of the takeover dialogue: the action for each message in every state.

import TakeOver
import Testing

@Suite("The take-over dialogue")
struct DialogueTests {
    private static let greeting = Greeting(storeFormat: 4, process: 77, version: "2")
    private static let end = HandedPosition(segment: 2, offset: 64)
    private static let change = TakeOverMessage.change(.clearing)

    private func old(_ events: HandingOver.Event...) -> (action: HandingOver.Action, state: HandingOver.State) {
        var machine = HandingOver(storeFormat: 4, version: "1")
        machine.listeners = 2
        var action = HandingOver.Action.nothing
        for event in events { action = machine.handle(event) }
        return (action, machine.state)
    }

    private func new(_ events: TakingOver.Event...) -> (action: TakingOver.Action, state: TakingOver.State) {
        var machine = TakingOver()
        var action = TakingOver.Action.nothing
        for event in events { action = machine.handle(event) }
        return (action, machine.state)
    }

    @Test("the old process sends hello, prepares, commits, and processes acknowledgements until the other ends")
    func handedOver() {
        let hello = HandingOver.Event.received(.hello(Self.greeting))
        #expect(old(hello) == (.offer(Self.greeting), .offering))
        let prepared = HandingOver.Event.received(.prepared(listeners: [1]))
        #expect(old(hello, prepared) == (.commit(listeners: [1]), .committed))
        #expect(old(hello, prepared, .received(.acknowledged(3))) == (.noteAcknowledged(3), .committed))
        #expect(old(hello, prepared, .silent) == (.nothing, .committed))
        #expect(old(hello, prepared, .received(Self.change)) == (.follow(Self.change), .committed))
        for event in [HandingOver.Event.gone, .garbled, .received(.failed("too late"))] {
            #expect(old(hello, prepared, event) == (.goAlone, .over), "nothing is taken back after committing: \(event)")
        }
        #expect(old(hello, prepared, .gone, .received(.acknowledged(1))) == (.nothing, .over))
    }

    @Test("the old process continues if the new one is incompatible, fails, ends, is late or sends invalid messages")
    func notHandedOver() {
        func refusal(_ event: HandingOver.Event) -> String {
            if case (.refuse(let reason), .over) = old(event) { reason } else { "" }
        }
        let other = Greeting(dialogue: 99, storeFormat: 4, process: 1, version: "9")
        #expect(refusal(.received(.hello(other))) == "version 9 cannot take over from version 1: their take-over protocols differ")
        let format = Greeting(storeFormat: 5, process: 1, version: "9")
        #expect(refusal(.received(.hello(format))) == "version 9 stores responses in another format than version 1")
        for event in [HandingOver.Event.garbled, .silent, .received(.prepared(listeners: []))] { #expect(!refusal(event).isEmpty) }
        #expect(old(.gone) == (.nothing, .over))
        let hello = HandingOver.Event.received(.hello(Self.greeting))
        let ends: [HandingOver.Event] = [
            .received(.failed("no room")), .silent, .gone, .garbled, .received(.prepared(listeners: [2])), .received(.acknowledged(1)),
        ]
        for event in ends {
            guard case (.takeBack, .over) = old(hello, event) else {
                Issue.record("not taken back: \(event)")
                continue
            }
        }
        guard case (.takeBack, .over) = old(hello, .received(.prepared(listeners: [])), .notCommitted) else {
            Issue.record("an uncommitted take-over was not taken back")
            return
        }
    }

    @Test("the new process receives, prepares, follows changes, serves after the commit, and finally runs alone")
    func takenOver() {
        let offered = TakingOver.Event.received(.offered)
        #expect(new(.received(.store)) == (.keep(.store), .receiving))
        #expect(new(.received(.store), offered) == (.prepare, .preparing))
        let prepared = TakingOver.Event.isPrepared(listeners: [0])
        #expect(new(offered, prepared) == (.say(.prepared(listeners: [0])), .waiting))
        #expect(new(offered, prepared, .received(Self.change)) == (.follow(Self.change), .waiting))
        let committed = TakingOver.Event.received(.committed(Self.end))
        #expect(new(offered, prepared, committed) == (.own(Self.end), .committed))
        #expect(new(offered, prepared, committed, .received(Self.change)) == (.follow(Self.change), .committed))
        for event in [TakingOver.Event.received(.begin), .gone, .silent, .garbled] {
            #expect(new(offered, prepared, committed, event) == (.serve, .serving), "nobody else serves: \(event)")
        }
        #expect(new(offered, prepared, committed, .received(.begin), .received(Self.change)) == (.follow(Self.change), .serving))
        #expect(new(offered, prepared, committed, .received(.begin), .received(.acknowledged(2))) == (.noteAcknowledged(2), .serving))
        #expect(new(offered, prepared, committed, .received(.begin), .gone) == (.noteAlone, .alone))
    }

    @Test("the new process ends with an explanation whenever the take-over is not committed")
    func notTakenOver() {
        #expect(new(.received(.refused("busy"))) == (.end("busy"), .refused))
        let offered = TakingOver.Event.received(.offered)
        let prepared = TakingOver.Event.isPrepared(listeners: [])
        for event in [TakingOver.Event.gone, .silent, .garbled, .received(.begin), .received(.refused("late"))] {
            for events in [[event], [offered, prepared, event]] {
                var machine = TakingOver()
                var action = TakingOver.Action.nothing
                for event in events { action = machine.handle(event) }
                guard case .end(let reason) = action, machine.state == .refused, !reason.isEmpty else {
                    Issue.record("goes on after \(events)")
                    continue
                }
            }
        }
        #expect(new(offered, .isImpossible("no room")) == (.say(.failed("no room")), .refused))
    }
}

// Tests whether unexpected responses are intended, or come from a gateway that fails for many targets: a table, and random schedules.

import TestSupport
import Testing

@testable import CachePolicy

private let window: Int64 = 10_000
private let kinds: [Surprise] = [.notFound, .forbidden]
private let longest = window * Crowds<Int>.longestWindows

@Suite("Crowds of unexpected responses")
struct CrowdsTests {
    /// Targets respond with 404, each to another client or to `witness`. Returns whether the last response is replaced.
    private func turn(_ crowds: inout Crowds<Int>, _ targets: Range<UInt64>, by witness: UInt64? = nil, at now: Int64) -> Bool {
        targets.map { crowds.odd(.notFound, $0, by: witness ?? $0 % 3, now: now).isReplaced }.last ?? false
    }

    @Test(
        "a crowd needs ten targets and a tenth of the requested targets",
        arguments: [(0, 9, false), (0, 10, true), (91, 10, false), (90, 10, true), (190, 20, false), (180, 20, true)])
    func share(found: UInt64, odd: UInt64, expected: Bool) {
        var crowds = Crowds<Int>(window: window)
        for target in 0..<found { crowds.found(1_000 + target, by: target % 5, now: 1) }
        #expect(turn(&crowds, 1..<1 + odd, at: 2) == expected)
    }

    @Test("unexpected responses to one client form no crowd if other clients get expected ones")
    func oneClient() {
        var crowds = Crowds<Int>(window: window)
        for target in 2_000..<2_030 as Range<UInt64> { crowds.found(target, by: 8, now: 1) }
        #expect(!turn(&crowds, 1..<1_000, by: 7, at: 1))
        // A few unexpected responses among many expected ones of another client do not suffice either.
        for target in 2_000..<2_005 as Range<UInt64> { crowds.found(target, by: 8, now: 2) }
        #expect(!turn(&crowds, 2_010..<2_012, by: 8, at: 2))
        #expect(!turn(&crowds, 1..<2, by: 7, at: 3))
    }

    @Test("the only active client forms a crowd for itself")
    func alone() {
        var crowds = Crowds<Int>(window: window)
        #expect(turn(&crowds, 1..<11, by: 7, at: 1) && turn(&crowds, 1..<2, by: 7, at: 2))
        // Another client receives expected responses.
        for target in 100..<120 as Range<UInt64> { crowds.found(target, by: 8, now: 3) }
        #expect(!turn(&crowds, 1..<2, by: 7, at: 4))
        #expect(!turn(&crowds, 100..<101, by: 8, at: 5))
    }

    @Test("a second client with the same unexpected responses makes the crowd apply to all")
    func second() {
        var crowds = Crowds<Int>(window: window)
        #expect(!turn(&crowds, 1..<10, by: 7, at: 1) && turn(&crowds, 1..<11, by: 8, at: 2))
        #expect(turn(&crowds, 1..<2, by: 7, at: 3) && turn(&crowds, 50..<51, by: 9, at: 3))
    }

    @Test("the addresses of one user count as one client, and a crowd of a user who is alone applies to that user")
    func user() {
        var crowds = Crowds<Int>(window: window)
        func areReplaced(_ targets: Range<UInt64>, of user: UInt64, at now: Int64) -> Bool {
            targets.map { crowds.odd(.notFound, $0, by: $0 % 2, of: user, now: now).isReplaced }.contains(true)
        }
        for target in 100..<120 as Range<UInt64> { crowds.found(target, by: 8, of: 2, now: 1) }
        #expect(!areReplaced(1..<20, of: 1, at: 2))
        for target in 100..<110 as Range<UInt64> { crowds.found(target, by: 8, of: 2, now: 3) }
        #expect(!areReplaced(110..<111, of: 2, at: 4))
        crowds = Crowds<Int>(window: window)
        #expect(areReplaced(1..<11, of: 1, at: 1) && areReplaced(1..<2, of: 1, at: 2))
        crowds.found(100, by: 8, of: 2, now: 3)
        #expect(!areReplaced(1..<2, of: 1, at: 4))
        // Clients that share a key are not one client.
        crowds = Crowds<Int>(window: window)
        for target in 100..<120 as Range<UInt64> { crowds.found(target, by: 8, of: 1, now: 1) }
        for target in 1..<20 as Range<UInt64> { #expect(!crowds.odd(.notFound, target, by: 7, of: 1, now: 2).isReplaced) }
    }

    @Test("an expected response of one of its targets ends a crowd, and ten new targets open another")
    func ends() {
        var crowds = Crowds<Int>(window: window)
        #expect(turn(&crowds, 1..<11, at: 1))
        // The other targets are not requested, and expected responses elsewhere do not count.
        crowds.found(99, by: 1, now: window * 5)
        #expect(turn(&crowds, 1..<2, at: window * 5))
        crowds.found(1, by: 1, now: window * 6)
        #expect(!turn(&crowds, 2..<11, at: window * 6) && turn(&crowds, 1..<2, at: window * 6))
    }

    @Test("a crowd that lasts thirty windows is accepted as intended and does not form again")
    func acceptedAsIntended() {
        var crowds = Crowds<Int>(window: window)
        #expect(turn(&crowds, 1..<12, at: 1) && turn(&crowds, 1..<12, at: longest))
        #expect(!turn(&crowds, 1..<12, at: longest + 1) && !turn(&crowds, 1..<12, at: longest * 2))
        crowds.found(1, by: 1, now: longest * 2)
        #expect(!turn(&crowds, 1..<12, at: longest * 2 + 1))
    }

    @Test("targets that changed before the window do not count, even if requested again")
    func old() {
        var crowds = Crowds<Int>(window: window)
        for target in 0..<30 as Range<UInt64> { #expect(!turn(&crowds, target + 1..<target + 2, at: Int64(target) * window / 5)) }
        #expect(!turn(&crowds, 1..<31, at: window * 7))
    }

    @Test("unexpected responses of different kinds form separate crowds")
    func kinds() {
        var crowds = Crowds<Int>(window: window)
        for target in 1..<10 as Range<UInt64> { _ = crowds.odd(.notFound, target, by: target % 2, now: 1) }
        #expect(!crowds.odd(.forbidden, 10, by: 1, now: 1).isReplaced)
        #expect(crowds.odd(.notFound, 11, by: 1, now: 1).isReplaced)
        #expect(!crowds.odd(.forbidden, 12, by: 1, now: 1).isReplaced)
    }

    @Test("opening a crowd returns the notes of its targets, and no others")
    func notes() {
        var crowds = Crowds<Int>(window: window)
        for target in 1..<10 as Range<UInt64> {
            #expect(crowds.odd(.notFound, target, by: target % 2, now: 1).notes.isEmpty)
            crowds.attach(Int(target), to: target, now: 1)
        }
        // A good response removes the entry. A target with expected responses gets none.
        crowds.found(9, by: 1, now: 1)
        crowds.attach(9, to: 9, now: 1)
        _ = crowds.odd(.notFound, 10, by: 1, now: 1)
        #expect(crowds.odd(.notFound, 11, by: 0, now: 1).notes.sorted() == Array(1...8))
        #expect(crowds.odd(.notFound, 12, by: 0, now: 1).notes.isEmpty)
    }

    @Test("two targets with the same redirect address form a crowd; different addresses do not")
    func redirects() {
        var crowds = Crowds<Int>(window: window)
        for target in 1..<100 as Range<UInt64> { #expect(!crowds.odd(.redirect(address: target), target, by: 1, now: 1).isReplaced) }
        #expect(!crowds.odd(.redirect(address: 500), 200, by: 1, now: 1).isReplaced)
        #expect(!crowds.odd(.redirect(address: 500), 200, by: 1, now: 2).isReplaced)
        #expect(crowds.odd(.redirect(address: 500), 201, by: 1, now: 3).isReplaced)
        #expect(crowds.odd(.redirect(address: 500), 200, by: 1, now: longest - 1).isReplaced)
        crowds.found(201, by: 1, now: longest - 1)
        #expect(!crowds.odd(.redirect(address: 500), 200, by: 1, now: longest - 1).isReplaced)
        // The times are too far apart.
        #expect(!crowds.odd(.redirect(address: 501), 300, by: 1, now: longest).isReplaced)
        #expect(!crowds.odd(.redirect(address: 501), 301, by: 1, now: longest + window).isReplaced)
    }

    @Test("a page is replaced without a crowd, and accepted after thirty windows without failure, expected response or long pause")
    func pages() {
        var crowds = Crowds<Int>(window: window)
        func isReplaced(_ target: UInt64, _ windows: Int64...) -> Bool {
            windows.reduce(true) { _, now in crowds.odd(.page(address: 1), target, by: 1, now: now * window).isReplaced }
        }
        #expect(isReplaced(1, 0, 10, 20, 29) && !isReplaced(1, 30) && !isReplaced(1, 31, 1_000))
        crowds.failed(1, now: window * 1_000)
        #expect(!isReplaced(1, 1_001))
        crowds.found(1, by: 1, now: window * 1_001)
        #expect(isReplaced(1, 1_001, 1_010, 1_020, 1_030) && !isReplaced(1, 1_031))
        // Responses at the beginning and at the end of an outage.
        #expect(isReplaced(2, 0, 100) && isReplaced(2, 109, 118, 127) && !isReplaced(2, 130))
        #expect(isReplaced(3, 0, 10, 20))
        crowds.failed(3, now: window * 21)
        #expect(isReplaced(3, 22, 30, 40, 50, 51) && !isReplaced(3, 52))
    }

    @Test("content for a request unlike the one that fetched the stored response changes no state")
    func contentWithoutEvidence() {
        var crowds = Crowds<Int>(window: window)
        func isReplaced(_ step: Int64, isEvidence: Bool) -> Bool {
            for other in 100..<120 as Range<UInt64> { crowds.found(other, by: 2, now: step * window) }
            return crowds.odd(.content, 1, by: 1, isEvidence: isEvidence, now: step * window).isReplaced
        }
        for step in 0...40 as ClosedRange<Int64> { #expect(isReplaced(step, isEvidence: false)) }
        for step in 41...71 as ClosedRange<Int64> {
            #expect(isReplaced(step, isEvidence: true) == (step < 71))
            #expect(isReplaced(step, isEvidence: false) == (step < 71))
        }
    }

    @Test("other content is accepted after thirty windows while a tenth of the targets have good responses", arguments: [0, 1, 2, 10])
    func content(others: UInt64) {
        var crowds = Crowds<Int>(window: window)
        for step in 0...30 as ClosedRange<Int64> {
            for target in 1...10 as ClosedRange<UInt64> {
                let now = step * window + Int64(target)
                let isReplaced = crowds.odd(.content, target, by: 1, now: now).isReplaced
                #expect(isReplaced == (step < 30 || others < 2), "\(step)")
                for other in 0..<others { crowds.found(100 + other, by: 2, now: now) }
            }
        }
        // Good responses end; then many targets have other content, and one has a good response.
        let later = window * 40
        #expect(crowds.odd(.content, 1, by: 1, now: later).isReplaced)
        for target in 2...20 as ClosedRange<UInt64> { _ = crowds.odd(.content, target, by: 1, now: later) }
        crowds.found(100, by: 2, now: later)
        #expect(crowds.odd(.content, 1, by: 1, now: later).isReplaced)
        // A failure is no good response, and content of another type does not end the period.
        crowds.failed(100, now: later)
        crowds.found(1, by: 1, isAlike: false, now: later)
        #expect(crowds.odd(.content, 1, by: 1, now: later).isReplaced)
    }

    @Test("memory is bounded, and targets with expected responses do not evict unexpected ones", .slow)
    func bounded() {
        var crowds = Crowds<Int>(window: window)
        #expect(!turn(&crowds, 1..<10, at: 1))
        for target in 0..<1_000_000 as Range<UInt64> { crowds.found(target + 2_048, by: target % 9, now: 1) }
        // The table is full of targets with expected responses; ten of them are far less than a tenth.
        #expect(!turn(&crowds, 10..<11, at: 1))
        for address in 0..<1_000 as Range<UInt64> {
            for target in [address * 2 + 1, address * 2 + 2] { _ = crowds.odd(.redirect(address: address), target, by: 1, now: 2) }
        }
        #expect(crowds.openCount <= Crowds<Int>.crowdLimit)
    }
}

@Suite("Crowds under random schedules")
struct CrowdScheduleTests {
    /// Requests of several clients to a healthy upstream with some unexpected responses.
    private struct Healthy {
        var crowds = Crowds<Int>(window: window, targets: 256)
        var now: Int64 = 0
        let targets: UInt64
        let clients: UInt64
        /// Number of the first clients that belong to one user; 0 if requests have no credentials.
        var ofOneUser: UInt64 = 0

        private func user(_ client: UInt64) -> UInt64 { ofOneUser == 0 ? 0 : max(client, ofOneUser) }

        init(_ random: inout SeededGenerator, clients: ClosedRange<UInt64>) {
            (targets, self.clients) = (UInt64.random(in: 5...60, using: &random), UInt64.random(in: clients, using: &random))
        }

        /// - Parameter isOdd: whether this client's response for this target may be unexpected.
        mutating func step(_ random: inout SeededGenerator, _ isOdd: (_ target: UInt64, _ client: UInt64) -> Bool) throws {
            now += .random(in: 0...window / 8, using: &random)
            let (target, client) = (UInt64.random(in: 1...targets, using: &random), UInt64.random(in: 1...clients, using: &random))
            // A target's number includes its partition.
            if isOdd(target, client), random.isTrue() {
                let isReplaced = crowds.odd(random.pick(kinds), target, by: client, of: user(client), now: now).isReplaced
                try demand(!isReplaced, "\(target) by \(client) of \(clients)")
            } else {
                crowds.found(target, by: client, of: user(client), now: now)
            }
            // Another client always receives expected responses.
            let other = ofOneUser == 0 ? client % clients + 1 : clients + 1
            if clients > 1 { crowds.found(10_000 + client, by: other, of: user(other), now: now) }
        }
    }

    @Test("a healthy upstream is never overruled with fewer than ten targets", .slow)
    func fewTargets() {
        RandomSchedules.run(2_000, steps: 60) {
            Healthy(&$0, clients: 1...6)
        } step: {
            try $0.step(&$1) { target, _ in target < 10 }
        }
    }

    @Test("a healthy upstream is never overruled if one client gets all unexpected responses", .slow)
    func singleClient() {
        RandomSchedules.run(2_000, steps: 60) {
            Healthy(&$0, clients: 2...6)
        } step: {
            try $0.step(&$1) { _, client in client == 1 }
        }
    }

    @Test("a healthy upstream is never overruled if one user gets all unexpected responses at any number of addresses", .slow)
    func singleUser() {
        RandomSchedules.run(2_000, steps: 60) { random in
            var healthy = Healthy(&random, clients: 3...6)
            healthy.ofOneUser = 3
            return healthy
        } step: {
            try $0.step(&$1) { _, client in client <= 3 }
        }
    }

    private struct Attacked {
        var crowds = Crowds<Int>(window: window, targets: 256)
        var now: Int64 = 0
        var number: UInt64 = 0
        let clients: UInt64

        mutating func step(_ random: inout SeededGenerator) throws {
            now += .random(in: 0...window / 8, using: &random)
            _ = crowds.odd(.notFound, 100_000 + .random(in: 0..<40, using: &random), by: 1, now: now)
            let client = number % (clients - 1) + 2
            if number % 2 == 0 { for target in client * 1_000..<client * 1_000 + 20 { crowds.found(target, by: client, now: now) } }
            if number % 3 == 0, number < 27 {
                try demand(!crowds.odd(.notFound, client * 1_000 + 500 + number, by: client, now: now).isReplaced, "of \(clients)")
            }
            number += 1
        }
    }

    /// Each client has separate targets. Of the honest clients' targets fewer than ten change, and fewer than half.
    @Test("a healthy upstream is never overruled if one client gets many unexpected responses and others a few", .slow)
    func attacker() {
        RandomSchedules.run(2_000, steps: 60) {
            Attacked(clients: .random(in: 2...6, using: &$0))
        } step: {
            try $0.step(&$1)
        }
    }

    @Test("a gateway failing for many targets is overruled until one recovers or thirty windows pass", .slow)
    func gateway() {
        RandomSchedules.run(2_000, steps: 1) { _ in
            Crowds<Int>(window: window, targets: 256)
        } step: { crowds, random in
            let (targets, clients) = (UInt64.random(in: 10...60, using: &random), UInt64.random(in: 1...4, using: &random))
            let kind = random.pick(kinds)
            for target in 1...targets { crowds.found(target, by: .random(in: 1...clients, using: &random), now: 0) }
            let failed = Int64.random(in: 1...window * 2, using: &random)
            // All targets change within one window, and every client requests some of them.
            for target in (1...targets).shuffled(using: &random) {
                _ = crowds.odd(kind, target, by: target % clients + 1, now: failed + Int64(target) * (window / 100))
            }
            let later = failed + .random(in: window * 3 / 4...longest - 1, using: &random)
            for target in (1...targets).shuffled(using: &random).prefix(3) {
                try demand(crowds.odd(kind, target, by: target % clients + 1, now: later).isReplaced)
            }
            if random.isTrue() {
                crowds.found(.random(in: 1...targets, using: &random), by: 1, now: later)
                try demand(!crowds.odd(kind, 1, by: 1, now: later).isReplaced)
            } else {
                let end = failed + window + longest
                for target in 1...targets { try demand(!crowds.odd(kind, target, by: target % clients + 1, now: end).isReplaced) }
            }
        }
    }
}

@Suite("Other representations and recent writes")
struct OtherFormsTests {
    @Test("another content type is rejected unless the target recently returned JSON for a different Accept field")
    func forms() {
        var forms = OtherForms(window: window)
        forms.found(1, accept: 10, now: 0)
        #expect(!forms.other(1, accept: 20, now: 1) && !forms.other(1, accept: 20, now: 2))
        forms.found(1, accept: 10, now: 3)
        #expect(forms.other(1, accept: 20, now: 4) && forms.other(1, accept: 20, now: 2 + window))
        // Limited to this Accept field, to this target, and to the time in which JSON is received.
        #expect(!forms.other(1, accept: 30, now: 5) && !forms.other(2, accept: 20, now: 5))
        #expect(forms.other(1, accept: 20, now: 3 + window) == false)
        // An Accept field that also receives JSON is not negotiated.
        forms.found(1, accept: 20, now: 4 + window)
        #expect(forms.other(1, accept: 20, now: 5 + window) == false)
    }

    @Test("a write is remembered for one window, for its client and target")
    func writes() {
        var writes = RecentWrites(window: window)
        writes.note(5, now: 1)
        #expect(writes.contains(5, now: window) && !writes.contains(5, now: window + 1) && !writes.contains(6, now: 1))
        for number in 0..<100_000 as Range<UInt64> { writes.note(number + 10, now: 2) }
        #expect(writes.contains(100_009, now: 3))
    }
}

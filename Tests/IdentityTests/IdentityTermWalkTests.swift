// Random schedules of look-ups, reads, and writes that change the user of a token, against a model of the upstream. A response is stored for a user
// only if it is that user's.

import CachePolicy
import Identity
import TestSupport
import Testing

/// The upstream's sessions, and what is under way.
private struct IdentityModel {
    let table: ToldIdentities
    var random: SeededGenerator
    var now: Int64 = 0
    /// The user of each token, at the upstream.
    var users: [UInt8]
    var lookUps: [(started: StartedLookUp, token: Int, user: UInt8)] = []
    var reads: [(told: ToldIdentity, token: Int, user: UInt8?)] = []
    var writes: [(write: IdentityWrite, token: Int, isRejected: Bool)] = []
    var hits = 0
    var stored = 0

    init(seed: UInt64) {
        var settings = LookUpSettings()
        settings.path = "/me"
        table = ToldIdentities(settings)
        random = SeededGenerator(seed: seed)
        users = (0..<4).map { _ in 0 }
        for token in users.indices { users[token] = UInt8.random(in: 0..<2, using: &random) }
    }

    /// Each token comes with two sets of other credentials.
    private static func hash(_ token: Int, _ other: Int) -> [UInt8] { [UInt8(token), UInt8(other)] }

    private mutating func index(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }

    /// - Returns: what is wrong; nil if nothing is.
    mutating func step() -> String? {
        let token = index(users.count)
        switch index(9) {
        case 0: now += Int64(index(60_000))
        case 1:
            if let started = table.begin(Self.hash(token, index(2)), token: [UInt8(token)], now: now) {
                lookUps.append((started, token, users[token]))
            }
        case 2:
            guard !lookUps.isEmpty else { break }
            let place = index(lookUps.count)
            // The upstream has looked when it was asked, or does so now.
            let lookUp = lookUps.remove(at: place)
            let user = index(2) == 0 ? lookUp.user : users[lookUp.token]
            table.end(lookUp.started, index(8) == 0 ? .failed : .told(partition: [user]), now: now)
        case 3, 4: return read(token)
        case 5, 6: return finishRead()
        case 7:
            let isRejected = index(3) == 0
            writes.append((IdentityWrite([[UInt8(token)]], in: [table]), token, isRejected))
        default: finishWrite()
        }
        return nil
    }

    private mutating func read(_ token: Int) -> String? {
        let told = table.find(Self.hash(token, index(2)), now: now)
        if let partition = told.partition {
            hits += 1
            guard partition == [users[token]] else { return "token \(token) of user \(users[token]) reads copies of \(partition)" }
        }
        // The upstream looks at once or later.
        reads.append((told, token, index(2) == 0 ? users[token] : nil))
        return nil
    }

    private mutating func finishRead() -> String? {
        guard !reads.isEmpty else { return nil }
        let read = reads.remove(at: index(reads.count))
        let user = read.user ?? users[read.token]
        guard let partition = read.told.partition, read.told.isUnchanged else { return nil }
        stored += 1
        return partition == [user] ? nil : "a response of user \(user) is stored for \(partition)"
    }

    /// A write that is not rejected changes the user, and its client does not always get the response.
    private mutating func finishWrite() {
        guard !writes.isEmpty else { return }
        let place = index(writes.count)
        let isOver = index(2) == 0
        if !writes[place].isRejected { users[writes[place].token] = UInt8(index(2)) }
        guard isOver else { return }
        writes[place].write.isRejected = writes[place].isRejected
        writes.remove(at: place)
    }
}

@Suite("Tokens that change their user")
struct IdentityTermWalk {
    @Test("no response of one user is stored for another, and none of another is found")
    func walk() {
        var (hits, stored) = (0, 0)
        for seed in 0..<UInt64(Soak.steps ?? 10_000) {
            var model = IdentityModel(seed: Soak.seed &+ seed)
            for step in 0..<60 {
                guard let wrong = model.step() else { continue }
                Issue.record("seed \(seed), step \(step): \(wrong)")
                return
            }
            hits += model.hits
            stored += model.stored
        }
        #expect(hits > 1_000 && stored > 1_000)
    }

    @Test("a token that has left the table is not believed any more, since nothing could end that")
    func bounded() throws {
        var settings = LookUpSettings()
        settings.path = "/me"
        let table = ToldIdentities(settings)
        func learn(_ number: Int) throws {
            let bytes = withUnsafeBytes(of: number) { Array($0) }
            table.end(try #require(table.begin(bytes, token: bytes, now: 0)), .told(partition: [1]), now: 0)
        }
        try learn(-1)
        let before = table.find(withUnsafeBytes(of: -1) { Array($0) }, now: 0)
        #expect(before.isCurrent && before.isUnchanged)
        for number in 0...2 * ToldIdentities.limit { try learn(number) }
        #expect(!before.isUnchanged)
        #expect(table.find(withUnsafeBytes(of: -1) { Array($0) }, now: 0).partition == nil)
    }
}

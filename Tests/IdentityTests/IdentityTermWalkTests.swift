// Random schedules of look-ups, reads, and writes that change the user of a token, against a model of the upstream. A response is stored
// for a user only if it is that user's.

import CachePolicy
import Identity
import TestSupport
import Testing

/// The upstream's sessions, and pending look-ups, reads and writes.
private struct IdentityModel {
    let table: LookedUpIdentities
    var now: Int64 = 0
    /// The user of each token at the upstream.
    var users: [UInt8]
    var lookUps: [(started: StartedLookUp, token: Int, user: UInt8)] = []
    var reads: [(told: LookedUpIdentity, token: Int, user: UInt8?)] = []
    var writes: [(write: IdentityWrite, token: Int, isRejected: Bool)] = []
    /// For each partition without a known user: the user whose response is stored in it.
    var own: [[UInt8]: Set<UInt8>] = [:]
    var hits = 0
    var ownHits = 0
    var stored = 0

    init(_ random: inout SeededGenerator) {
        var settings = LookUpSettings()
        settings.path = "/me"
        table = LookedUpIdentities(settings)
        users = (0..<4).map { _ in UInt8(random.below(2)) }
    }

    /// Hash of a token with one of two sets of other credentials.
    private static func hash(_ token: Int, _ other: Int) -> [UInt8] { [UInt8(token), UInt8(other)] }

    mutating func step(_ random: inout SeededGenerator) throws {
        let token = random.below(users.count)
        switch random.below(9) {
        case 0: now += Int64(random.below(60_000))
        case 1:
            if let started = table.begin(Self.hash(token, random.below(2)), token: [UInt8(token)], now: now) {
                lookUps.append((started, token, users[token]))
            }
        case 2:
            guard !lookUps.isEmpty else { break }
            let place = random.below(lookUps.count)
            // The upstream determined the user when the look-up began, or does so now.
            let lookUp = lookUps.remove(at: place)
            let user = random.below(2) == 0 ? lookUp.user : users[lookUp.token]
            table.end(lookUp.started, random.below(8) == 0 ? .failed : .lookedUp(partition: [user]), now: now)
        case 3, 4: try read(token, &random)
        case 5, 6: try finishRead(&random)
        case 7:
            let isRejected = random.below(3) == 0
            writes.append((IdentityWrite([[UInt8(token)]], in: [table]), token, isRejected))
        default: try finishWrite(&random)
        }
    }

    private mutating func read(_ token: Int, _ random: inout SeededGenerator) throws {
        let told = table.find(Self.hash(token, random.below(2)), tokens: [[UInt8(token)]], now: now)
        // During a write, the response may be that of before or after.
        if !told.isCurrent, !writes.contains(where: { $0.token == token }), let found = own[told.ownPartition(told.hash)] {
            ownHits += 1
            try demand(found == [users[token]], "token \(token) of user \(users[token]) reads copies of \(found) in its own partition")
        }
        if let partition = told.partition {
            hits += 1
            try demand(partition == [users[token]], "token \(token) of user \(users[token]) reads copies of \(partition)")
        }
        // The upstream determines the user now or later.
        reads.append((told, token, random.below(2) == 0 ? users[token] : nil))
    }

    private mutating func finishRead(_ random: inout SeededGenerator) throws {
        guard !reads.isEmpty else { return }
        let read = reads.remove(at: random.below(reads.count))
        let user = read.user ?? users[read.token]
        if !read.told.isCurrent, read.told.isUnchanged { own[read.told.ownPartition(read.told.hash), default: []].insert(user) }
        guard let partition = read.told.partition, read.told.isUnchanged else { return }
        stored += 1
        try demand(partition == [user], "a response of user \(user) is stored for \(partition)")
    }

    /// A write that is not rejected changes the user. Its client does not always get the response.
    private mutating func finishWrite(_ random: inout SeededGenerator) throws {
        guard !writes.isEmpty else { return }
        let place = random.below(writes.count)
        let isOver = random.below(2) == 0
        if !writes[place].isRejected { users[writes[place].token] = UInt8(random.below(2)) }
        guard isOver else { return }
        let (token, isRejected) = (writes[place].token, writes[place].isRejected)
        writes[place].write.isWithoutEffect = isRejected
        writes.remove(at: place)
        guard !isRejected, !writes.contains(where: { $0.token == token }) else { return }
        try demand(table.find(Self.hash(token, random.below(2)), now: now).isDue, "no look-up of token \(token) after a write")
    }
}

@Suite("Changes of a token's user")
struct IdentityTermWalk {
    @Test("no response of one user is stored for or served to another")
    func walk() {
        var (hits, stored, ownHits) = (0, 0, 0)
        let isWhole = RandomSchedules.run(10_000, steps: 60) {
            IdentityModel(&$0)
        } step: {
            try $0.step(&$1)
        } end: {
            (hits, stored, ownHits) = (hits + $0.hits, stored + $0.stored, ownHits + $0.ownHits)
        }
        #expect(!isWhole || (hits > 1_000 && stored > 1_000 && ownHits > 1_000))
    }

    @Test("a token evicted from the table is no longer trusted, because its changes would be missed")
    func bounded() throws {
        var settings = LookUpSettings()
        settings.path = "/me"
        let table = LookedUpIdentities(settings)
        func learn(_ number: Int) throws {
            let bytes = withUnsafeBytes(of: number) { Array($0) }
            table.end(try #require(table.begin(bytes, token: bytes, now: 0)), .lookedUp(partition: [1]), now: 0)
        }
        try learn(-1)
        let before = table.find(withUnsafeBytes(of: -1) { Array($0) }, now: 0)
        #expect(before.isCurrent && before.isUnchanged)
        for number in 0...2 * LookedUpIdentities.limit { try learn(number) }
        #expect(!before.isUnchanged)
        #expect(table.find(withUnsafeBytes(of: -1) { Array($0) }, now: 0).partition == nil)
    }
}

// Tests of the table of verified tokens: lifetimes and limits. Also tests the source of keys.

import CachePolicy
import CacheStore
import Glibc
import HTTPCore
import Reactor
import TestSupport
import Testing

@testable import Identity

private let noon: Int64 = 1_795_000_000
private let settings = TokenSettings(issuers: ["https://id.example"], audiences: ["api"])

private func claims(_ user: String = "ann", until: Int64 = noon + 300) -> String {
    #"{"iss":"https://id.example","aud":"api","sub":"\#(user)","exp":\#(until),"jti":"\#(until)"}"#
}

private func set(_ issuers: TokenIssuer...) -> String { #"{"keys":[\#(issuers.map { $0.jwk() }.joined(separator: ","))]}"# }

/// A file of keys, and the reported events.
private final class Keys {
    private let directory = TestTools.temporaryDirectory()
    let told = Mutex<[KeySource.Event]>([])
    let source: KeySource

    private var path: String { directory.path + "/keys" }

    init(_ text: String) throws {
        let told = self.told
        source = KeySource(
            .file(directory.path + "/keys"),
            run: {
                $0()
                return true
            }, onEvent: { event in told.withLock { $0.append(event) } })
        try write(text)
        source.start(now: 0)
    }

    func write(_ text: String) throws { try TestTools.write(text, to: path) }
}

/// Looks up tokens of one route, and counts the results.
private struct Looker {
    let identities: RequestIdentities
    var clock: Int64 = 0
    /// Seconds since 1970.
    var now = noon

    init(_ keys: Keys) { identities = RequestIdentities(settings, keys.source) }

    mutating func look(_ token: String) -> String {
        var fields = Fields()
        fields.append(name: "Authorization", value: "Bearer \(token)")
        let found = identities.identity(of: fields, hash: Array(token.utf8), now: now * 1000, clock: clock) { $0 }
        switch found {
        case .verified(let identity): return String(decoding: identity.partition, as: UTF8.self)
        case .expired: return "expired"
        case .refused(let reason): return reason.rawValue
        case .lookedUp: return "told"
        }
    }
}

private let ann = #"{"aud":"api","iss":"https://id.example","sub":"ann"}"#

@Suite("Identity of a request")
struct RequestIdentitiesTests {
    @Test("refreshed tokens of one user have the same identity, which expires with the token")
    func refreshed() throws {
        let issuer = TokenIssuer()
        var looker = try Looker(Keys(set(issuer)))
        let (first, second) = (issuer.token(claims()), issuer.token(claims(until: noon + 900)))
        #expect(looker.look(first) == ann)
        #expect(looker.look(second) == ann)
        #expect(looker.look(issuer.token(claims("bob"))) != ann)
        looker.now = noon + 359
        #expect(looker.look(first) == ann)
        looker.now = noon + 360
        #expect(looker.look(first) == "expired")
        #expect(looker.look(first) == "expired")
        #expect(looker.look(second) == ann)
    }

    @Test("a remembered identity ends when its key leaves the set")
    func withdrawn() throws {
        let (old, new) = (TokenIssuer(name: "old"), TokenIssuer(name: "new"))
        let keys = try Keys(set(old))
        var looker = Looker(keys)
        let token = old.token(claims())
        #expect(looker.look(token) == ann)
        try keys.write(set(new))
        #expect(looker.look(token) == ann)
        looker.clock = KeySource.refreshMilliseconds
        // Also if no request has a new token.
        #expect(looker.look(token) == "unknown_key")
        #expect(looker.look(new.token(claims())) == ann)
    }

    @Test("an identity remains valid while its key stays in the set; unverifiable tokens are checked again")
    func added() throws {
        let (old, new) = (TokenIssuer(name: "old"), TokenIssuer(name: "new"))
        let keys = try Keys(set(old))
        var looker = Looker(keys)
        let (token, next) = (old.token(claims()), new.token(claims("bob"), head: #"{"alg":"ES256","kid":"old"}"#))
        #expect(looker.look(token) == ann)
        #expect(looker.look(next) == "signature")
        try keys.write(set(TokenIssuer(name: "other"), old))
        looker.clock = KeySource.refreshMilliseconds
        // Uses up the budget for new verifications.
        for number in 0..<Int(VerificationBudget.ratePerSecond) { _ = looker.look("\(number)") }
        #expect(looker.look(token) == ann)
        #expect(looker.look(next) == "too_many")
    }

    @Test("a key set without usable keys is reported, and the previous keys stay valid")
    func emptied() throws {
        let issuer = TokenIssuer()
        let keys = try Keys(set(issuer))
        var looker = Looker(keys)
        try keys.write(#"{"keys":[{"kty":"oct","kid":"x"}]}"#)
        looker.clock = KeySource.refreshMilliseconds
        #expect(looker.look(issuer.token(claims())) == ann)
        guard case .failed(let sentence, hasKeys: true)? = keys.told.withLock({ $0.last }) else {
            Issue.record("the failure is not reported")
            return
        }
        #expect(sentence.hasPrefix("it has no usable key (x: "))
    }

    @Test("an unknown key causes at most one key refresh in 30 seconds")
    func unknownKeys() throws {
        let (issuer, next) = (TokenIssuer(), TokenIssuer(name: "next"))
        let keys = try Keys(set(issuer))
        var looker = Looker(keys)
        let token = next.token(claims())
        looker.clock = 29_999
        #expect(looker.look(token) == "unknown_key")
        try keys.write(set(issuer, next))
        #expect(looker.look(token) == "unknown_key")
        looker.clock = 30_000
        #expect(looker.look(token) == "unknown_key")
        #expect(looker.look(token) == ann)
        #expect(keys.told.withLock { $0 } == [.read(keys: 1, refused: []), .read(keys: 2, refused: [])])
    }

    @Test("a key file that becomes invalid is only logged, and the previous keys stay valid")
    func brokenFile() throws {
        let issuer = TokenIssuer()
        let keys = try Keys(set(issuer))
        var looker = Looker(keys)
        try keys.write("{")
        looker.clock = KeySource.refreshMilliseconds
        #expect(looker.look(issuer.token(claims())) == ann)
        #expect(looker.look(issuer.token(claims(until: noon + 1))) == ann)
        #expect(
            keys.told.withLock { $0.last } == .failed("it is not a JWK Set (RFC 7517) of at most 512 KiB and 256 keys", hasKeys: true))
    }

    @Test("new tokens are verified up to a rate limit, and known tokens are unaffected")
    func budget() throws {
        let issuer = TokenIssuer()
        var looker = try Looker(Keys(set(issuer)))
        let token = issuer.token(claims())
        #expect(looker.look(token) == ann)
        for number in 1..<Int(VerificationBudget.ratePerSecond) { #expect(looker.look("\(number)") == "malformed") }
        #expect(looker.look("more") == "too_many")
        #expect(looker.look(token) == ann)
        looker.clock = 2
        #expect(looker.look("more") == "malformed")
        #expect(looker.look("and more") == "too_many")
        looker.clock = 1_000_000
        #expect(looker.look("and more") == "malformed")
    }

    @Test("the number of remembered tokens is bounded, and recently used ones stay")
    func limit() throws {
        let issuer = TokenIssuer()
        var looker = try Looker(Keys(set(issuer)))
        for number in 0..<(3 * RequestIdentities.limit) {
            looker.clock += 1000
            _ = looker.look("\(number)")
        }
        let token = issuer.token(claims())
        #expect(looker.look(token) == ann)
        // Invalid tokens do not evict verified ones.
        for number in 0..<(3 * RequestIdentities.limit) {
            looker.clock += 1000
            _ = looker.look("more \(number)")
        }
        let before = looker.identities.counts["verified"]
        #expect(looker.look(token) == ann)
        #expect(looker.identities.counts["verified"] == before)
        #expect(looker.identities.count <= 2 * RequestIdentities.limit + 1)
    }
}

@Suite("Key sources", .play)
struct KeySourceTests {
    private func source(_ url: String, kept: String?, _ told: Mutex<[KeySource.Event]>, authorities: String? = nil) -> KeySource {
        KeySource(
            .url(url, kept: kept, authorities: authorities),
            run: {
                $0()
                return true
            }, onEvent: { event in told.withLock { $0.append(event) } })
    }

    @Test("keys are fetched, and their saved copy is used while the source is unreachable")
    func kept() {
        let issuer = TokenIssuer()
        let origin = ScriptedOrigin { _ in [.json(set(issuer))] }
        let directory = TestTools.temporaryDirectory()
        let kept = directory.path + "/kept"
        let told = Mutex<[KeySource.Event]>([])
        let url = "http://127.0.0.1:\(origin.port)/keys"
        let first = source(url, kept: kept, told)
        first.start(now: 0)
        #expect(first.keys(now: 1).contains(named: "one"))
        origin.down()
        let second = source(url, kept: kept, told)
        second.start(now: 0)
        #expect(second.keys(now: 1).contains(named: "one"))
        guard case .failed(_, hasKeys: true) = told.withLock({ $0.last }) else {
            Issue.record("the failure is not reported")
            return
        }
    }

    @Test("the issuer's TLS certificate must be trusted by the configured or the system's authorities")
    func trust() throws {
        let issuer = TokenIssuer()
        let origin = ScriptedOrigin(tls: SharedCertificates.tls) { _ in [.json(set(issuer))] }
        let told = Mutex<[KeySource.Event]>([])
        for (authorities, isTrusted) in [(SharedCertificates.authority, true), (nil, false)] {
            let source = source("https://127.0.0.1:\(origin.port)/keys", kept: nil, told, authorities: authorities)
            source.start(now: 0)
            #expect(source.keys(now: 1).contains(named: "one") == isTrusted)
        }
        guard case .failed(let sentence, hasKeys: false) = told.withLock({ $0.last }) else {
            Issue.record("the failure is not reported")
            return
        }
        #expect(sentence.contains("certificate"))
    }

    @Test("a response that cannot be a key set is not used", arguments: ["long", "error", "junk"])
    func refused(kind: String) {
        let origin = ScriptedOrigin { _ in
            switch kind {
            case "long": [.json(String(repeating: " ", count: KeySet.byteLimit) + set(TokenIssuer()))]
            case "error": [.json(set(TokenIssuer()), status: "500 Oops")]
            default: [.json("[]")]
            }
        }
        let directory = TestTools.temporaryDirectory()
        let kept = directory.path + "/kept"
        let told = Mutex<[KeySource.Event]>([])
        let source = source("http://127.0.0.1:\(origin.port)/keys", kept: kept, told)
        source.start(now: 0)
        #expect(source.keys(now: 1).keys.isEmpty)
        guard case .failed(_, hasKeys: false) = told.withLock({ $0.last }) else {
            Issue.record("the failure is not reported")
            return
        }
        #expect(access(kept, F_OK) != 0)
    }
}

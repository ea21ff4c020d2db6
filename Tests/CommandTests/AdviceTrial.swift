// A situation with advice from `why`, played through the whole server: once unchanged, and once with each advised change.
// The settings come from a file, so each change is exactly the setting that the advice names.

import Administration
import JSON
import ReverseProxy
import Settings
import TestSupport
import Testing

@testable import cistern

/// One run of a situation.
final class AdviceStage {
    let play: ProxyPlay
    /// Gate at which the origin waits for the play.
    let gate: Gate
    /// Whether the advised change has been made.
    let isChanged: Bool

    init(_ play: ProxyPlay, _ gate: Gate, isChanged: Bool) { (self.play, self.gate, self.isChanged) = (play, gate, isChanged) }

    /// Sends a request to which the origin responds late, and advances the clock. Without the change, the origin responds after the client
    /// has received its response; with the change, before.
    func ask(_ target: String = "/a", whileWaiting time: Duration, behind seen: Int = 0) throws {
        let client = try play.client(sending: "GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(play.origin.waitForRequests(seen + 1))
        // Ensures that the proxy has read the origin's partial response.
        _ = try play.get("/other")
        play.time.advance(by: time)
        if isChanged { gate.open() }
        #expect(client.readResponse() != nil)
        gate.open()
    }
}

struct AdviceTrial {
    typealias Script = @Sendable (_ request: OriginRequest, _ gate: Gate) -> [OriginStep]

    /// The origin responds to /b when the gate is open, to other targets at once.
    static let holdingB: Script = { request, gate in (request.target == "/b" ? [.pass(gate)] : []) + [.json("{}")] }

    /// The changed settings file, and the changed upstream if the advice is about it.
    struct Change {
        let settings: String
        let origin: Script?

        init(_ settings: String, origin: Script? = nil) { (self.settings, self.origin) = (settings, origin) }
    }

    var settings: String
    var origin: Script
    var act: (AdviceStage) throws -> Void
    /// Changes by the advised setting.
    var changes: [String: Change]
    var tls: OriginTLS?
    /// Target of the explained exchange.
    var target = "/a"
    /// Advised settings against the upstream's failure, which the trial does not change.
    var againstCause: Set<String> = []

    /// - Parameter steps: the origin's response to each request.
    init(
        _ settings: String = "", _ steps: OriginStep..., changes: [String: Change] = [:],
        act: @escaping (AdviceStage) throws -> Void = { _ = try $0.play.get("/a") }
    ) {
        self.init(settings, script: { _, _ in steps }, changes: changes, act: act)
    }

    init(
        _ settings: String = "", script: @escaping Script, changes: [String: Change] = [:],
        act: @escaping (AdviceStage) throws -> Void = { _ = try $0.play.get("/a") }
    ) {
        (self.settings, origin, self.act, self.changes) = (settings, script, act, changes)
    }

    /// Runs the scenario. Returns the newest exchange of the target /a from `why`.
    func run(_ settings: String, _ script: @escaping Script, isChanged: Bool) throws -> JSONValue {
        let gate = Gate()
        let origin = ScriptedOrigin(tls: tls) { request in request.target == "/other" ? [.json("{}")] : script(request, gate) }
        let play = try Self.play(settings, origin, isTLS: tls != nil)
        try act(AdviceStage(play, gate, isChanged: isChanged))
        gate.open()
        return try Self.newest(play, target)
    }

    /// The newest exchange of a client. Skips background fetches that ended later.
    static func newest(_ play: ProxyPlay, _ target: String = "/a") throws -> JSONValue {
        let path = target.replacing("%", with: "%25")
        let newest = try #require(JSONValue(try play.admin("GET", "/-/why?path=\(path)&last=1").content)?["exchanges"]?.array?.first)
        guard let behind = newest["behind"]?.string else { return newest }
        return try #require(JSONValue(try play.admin("GET", "/-/why/" + behind).content))
    }

    /// - Parameter text: content of a settings file, in which UPSTREAM stands for the upstream's address.
    static func play(_ text: String, _ origin: ScriptedOrigin, isTLS: Bool = false) throws -> ProxyPlay {
        var reader = SettingsReader()
        let address = "\(isTLS ? "https" : "http")://127.0.0.1:\(origin.port)"
        reader.read(file: "f.yaml", text: Array(text.replacing("UPSTREAM", with: address).utf8))
        if !text.contains("UPSTREAM") { reader.read(path: "upstream.url", .one(address), option: "--upstream") }
        reader.finish()
        try #require(reader.mistakes.isEmpty, "\(reader.mistakes)")
        let given = reader.settings
        return try ProxyPlay(origin) { settings in
            var made = ProxySettings(given)
            made.listening = settings.listening
            made.admin.socket = settings.admin.socket
            made.shards = 1
            if given.store.directory.isEmpty { made.store = settings.store }
            settings = made
        }
    }

    static func advised(_ exchange: JSONValue) -> [String] { exchange["advice"]?.array?.compactMap { $0["setting"]?.string } ?? [] }

    /// Plays the situation unchanged and with each change.
    /// - Parameters:
    ///   - isMet: whether the exchange is in the situation.
    ///   - isHelped: whether the exchange has the promised outcome; by default, whether it has left the situation.
    func verify(isMet: (JSONValue) -> Bool, isHelped: ((JSONValue) -> Bool)? = nil) throws {
        let before = try run(settings, origin, isChanged: false)
        #expect(isMet(before), "\(text(before))")
        #expect(Set(Self.advised(before)) == againstCause.union(changes.keys), "\(text(before))")
        for (setting, change) in changes {
            let after = try run(change.settings, change.origin ?? origin, isChanged: true)
            #expect(isHelped?(after) ?? !isMet(after), "\(setting) does not help: \(text(after))")
        }
    }

    private func text(_ exchange: JSONValue) -> String { String(decoding: exchange.serialized(), as: UTF8.self) }
}

// `cistern demo login`, `preflight` and `replay`: examples that run alone, print each request with its response, and end.

import Administration
import Archives
import ArgumentParser
import CachePolicy
import CacheStore
import Downstream
import Glibc
import Logging
import ReverseProxy
import Server
import Upstream

/// An example with the sample API behind Cistern.
protocol DemoExample: ParsableCommand {
    func play(_ stage: DemoStage, _ client: DemoClient) throws
}

extension DemoExample {
    func run() throws {
        let stage = try DemoStage(level: .error)
        stage.start()
        defer { stage.stop() }
        guard let address = stage.server.addresses.first else { return }
        do {
            try play(stage, DemoClient(address: address))
        } catch let failure as AdminFailure {
            StandardError.write("cistern: \(failure)\n")
            throw ExitCode.failure
        }
    }
}

struct DemoLogin: DemoExample {
    static let configuration = CommandConfiguration(
        commandName: "login", abstract: "Show that a refreshed token gets its user's stored responses, and another user's token does not.")

    func play(_ stage: DemoStage, _ client: DemoClient) throws {
        DemoClient.say("Ada and Grace log in. Their tokens are valid for a minute.")
        let ada = try DemoClient.token(in: client.send("POST", "/login", form: "user=ada"))
        let grace = try DemoClient.token(in: client.send("POST", "/login", form: "user=grace"))
        DemoClient.say("Ada's own data, which Cistern stores for her only:")
        try client.send("GET", "/me", Self.bearer(ada), note: "Ada's token")
        DemoClient.say("Her app gets a new token for the old one. Then the API goes down.")
        let refreshed = try DemoClient.token(in: client.send("POST", "/token", Self.bearer(ada), note: "Ada's token"))
        stage.sample.turn(on: false)
        DemoClient.say("The new token is signed, for Ada with equal rights, so it selects her stored response (credentials.identity.jwt).")
        try client.send("GET", "/me", Self.bearer(refreshed), note: "Ada's new token")
        DemoClient.say("Grace has sent no request for her data before. She gets an error, and no data of Ada's.")
        try client.send("GET", "/me", Self.bearer(grace), note: "Grace's token")
    }

    private static func bearer(_ token: String) -> [(String, String)] { [("Authorization", "Bearer \(token)")] }
}

struct DemoPreflight: DemoExample {
    static let configuration = CommandConfiguration(
        commandName: "preflight", abstract: "Show a web app of another origin (CORS), before and during an outage.")

    func play(_ stage: DemoStage, _ client: DemoClient) throws {
        let app = SampleResources.appOrigin
        DemoClient.say("A web app of another origin: its browser sends a preflight request first, and then requests the data.")
        try ask(client, app)
        stage.sample.turn(on: false)
        DemoClient.say("The API goes down. The preflight is still allowed, and the app may read the stored response.")
        try ask(client, app)
        DemoClient.say("No response is stored for another origin, so it gets an error.")
        try client.send("OPTIONS", "/users", Self.preflight("https://other.example"), note: "preflight of https://other.example")
    }

    private func ask(_ client: DemoClient, _ origin: String) throws {
        try client.send("OPTIONS", "/users", Self.preflight(origin), note: "preflight of \(origin)")
        try client.send("GET", "/users", [("Origin", origin)], note: "request of \(origin)")
    }

    private static func preflight(_ origin: String) -> [(String, String)] {
        [("Origin", origin), ("Access-Control-Request-Method", "GET"), ("Access-Control-Request-Headers", "authorization")]
    }
}

struct DemoReplay: DemoExample {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Record requests to the sample API, and replay them without the API.")

    func play(_ stage: DemoStage, _ client: DemoClient) throws {
        DemoClient.say("The responses to two requests are recorded, including the login, which must not be cached (cistern record).")
        let archive = stage.temporary.path + "/demo.har"
        StandardOutput.write("\(try record(stage, to: archive)) in demo.har; the login's token is redacted\n")
        stage.sample.turn(on: false)
        DemoClient.say("The API goes down. The recording is served without it, as in tests and demonstrations (cistern replay).")
        try serve(Self.recording(archive))
    }

    private static func recording(_ archive: String) throws -> Recording {
        do throws(ArchiveReader.Mistake) {
            let reader = try ArchiveReader(try ArchiveFile.read(archive))
            let secrets = SecretRedaction(fields: CredentialSettings().fields)
            let recording = try Recording(reader, origins: [], secrets: secrets, now: Int64(time(nil)))
            return recording
        } catch {
            throw AdminFailure("\(error)")
        }
    }

    private func serve(_ recording: Recording) throws {
        let server = try ReplayServer(recording, ReplayOptions(), at: .ipv4(host: "127.0.0.1", port: 0))
        server.start()
        let replaying = DemoClient(address: server.address)
        try ask(replaying)
        DemoClient.say("A request that was not recorded gets an error with the nearest recorded requests.")
        try replaying.send("GET", "/user")
        let replay = ReplayCommand.stop(server).replay
        StandardOutput.write("\(replay.served) requests served, \(replay.refused) without a recorded response\n")
    }

    private func ask(_ client: DemoClient) throws {
        try client.send("GET", "/users")
        try client.send("POST", "/login", form: "user=ada")
    }

    /// Returns a summary of the recording.
    private func record(_ stage: DemoStage, to path: String) throws -> String {
        var proxy = ProxySettings(stage.settings)
        proxy.store = nil
        proxy.admin.socket = nil
        proxy.listening.adminListeners = []
        let recorder = Recorder()
        let server = try Startup.makeServer(proxy, stage.settings, LogSetup.logger, recorder: recorder)
        server.start()
        guard let address = server.addresses.first else { throw AdminFailure("the recorder does not listen") }
        try ask(DemoClient(address: address))
        server.stop(deadline: .seconds(1))
        let upstream = proxy.upstream.origin + proxy.upstream.basePath
        let secrets = SecretRedaction(fields: proxy.policy.credentials.fields, names: [])
        let file = try NewFile(path)
        try recorder.write(to: file, ArchiveWriter(upstream: upstream, version: Version.text, secrets: secrets), upstream: upstream)
        try file.finish()
        return recorder.summary
    }
}

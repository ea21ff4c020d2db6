// Tests of sharing settings: their effect, and mistakes.

import CacheStore
import Engine
import Glibc
import Reactor
import ResponseCache
import Settings
import Sharing
import TestSupport
import Testing

@testable import cistern

@Suite("Settings of a fleet")
struct SharingSettingsTests {
    private let directory = TestTools.temporaryDirectory()

    private func file(_ name: String, _ text: String) throws -> String {
        let path = "\(directory.path)/\(name)"
        let file = Descriptor(open(path, O_WRONLY | O_CREAT, 0o600))
        let bytes = Array(text.utf8)
        #expect(WholeWrite.write(bytes, to: file.number) == bytes.count)
        return path
    }

    private func settings(_ change: (inout CisternSettings.Share) -> Void) throws -> FleetSettings {
        var share = CisternSettings().share
        share.servers = ["redis://one.test:7000"]
        share.secretFile = try file("secret", "a secret that is long enough for all\n")
        change(&share)
        return try #require(FleetSettings(share))
    }

    @Test(
        "share settings without share.servers cause a warning that they have no effect",
        arguments: [
            ("share: {fleet: shop, keep: 1d}", "these settings have no effect: share.fleet, share.keep"),
            ("upstream: {url: http://a}", nil),
            ("share: {servers: [redis://a], fleet: shop}", nil),
        ] as [(String, String?)])
    func idle(text: String, end: String?) {
        var reader = SettingsReader()
        reader.read(file: "cistern.yaml", text: Array(text.utf8))
        let warning = SharingCheck.idle(reader)
        #expect((warning == nil) == (end == nil) && warning?.hasSuffix(end ?? "") != false, "\(warning ?? "nothing")")
    }

    @Test("without share.servers no fleet is configured")
    func off() { #expect(FleetSettings(CisternSettings().share) == nil) }

    @Test("each share setting is passed to the fleet's settings")
    func arrives() throws {
        let password = try file("password", "pass word\n")
        let fleet = try settings {
            $0.servers = ["rediss://one.test:7000/2", "rediss://two.test/2"]
            ($0.fleet, $0.user, $0.passwordFile) = ("shop", "node", password)
            ($0.caFile, $0.certificate, $0.key) = ("/ca", "/certificate", "/key")
            ($0.keep, $0.blindLimit, $0.timeout, $0.contentLimit) = (120_000, 5_000, 25, 4_096)
            ($0.afterGap, $0.collapse) = (.drop, false)
        }
        #expect(fleet.engine.servers == [.host("one.test", port: 7000), .host("two.test", port: 6379)])
        #expect(fleet.engine.username == "node")
        #expect(fleet.engine.passwordFile == password && fleet.engine.database == 2)
        #expect(fleet.engine.tls == EngineTLS(authorities: "/ca", certificate: "/certificate", key: "/key"))
        #expect(fleet.engine.patienceMilliseconds == 25)
        #expect(fleet.name == "shop")
        #expect(fleet.keep == 120_000)
        #expect(fleet.blindLimit == 5_000)
        #expect(fleet.timeout == 25)
        #expect(fleet.contentLimitBytes == 4_096)
        #expect(fleet.afterGap == .drop)
        #expect(!fleet.collapses)
    }

    @Test("unset share settings have the module's default values")
    func defaults() throws {
        let fleet = try settings { _ in }
        let own = FleetSettings(
            engine: EngineSettings(servers: []), name: "main", secrets: try FleetSecrets(file: Array(repeating: 0x61, count: 32)))
        #expect(fleet.name == own.name)
        #expect(fleet.keep == own.keep)
        #expect(fleet.blindLimit == own.blindLimit)
        #expect(fleet.timeout == own.timeout)
        #expect(fleet.contentLimitBytes == own.contentLimitBytes)
        #expect(fleet.afterGap == own.afterGap)
        #expect(fleet.collapses == own.collapses)
        #expect(fleet.engine.tls == nil)
        #expect(fleet.engine.username == nil)
        #expect(fleet.engine.passwordFile == nil && fleet.engine.database == 0)
    }

    @Test("a blind_limit of 0 disables the limit")
    func unlimited() throws { #expect(try settings { $0.blindLimit = 0 }.blindLimit == nil) }

    @Test(
        "an invalid share setting is reported with its reason",
        arguments: [
            ("share: {servers: [\"10.0.0.1\"]}", "share.servers: \"10.0.0.1\" must begin with redis://"),
            ("share: {servers: [\"redis://u:p@h\"]}", "share.servers: \"redis://…@h\" must not contain a user or password"),
            ("share: {servers: [\"redis://h:0\"]}", "has a port that is not a number"),
            ("share: {servers: [redis://a, rediss://b]}", "share.servers: use rediss:// for all servers or for none"),
            ("share: {servers: [redis://a/1, redis://b/2]}", "share.servers: all servers must have the same database number, or none"),
            ("share: {servers: [redis://a/b]}", "must end with the port, or with / and the number of a database"),
            ("share: {servers: [redis://a]}", "share.secret_file is missing"),
            ("share: {servers: [redis://a], secret_file: /nowhere/at/all}", "share.secret_file: /nowhere/at/all cannot be read"),
            ("share: {servers: [redis://a], secret_file: /dev/null}", "share.secret_file: /dev/null contains no secret"),
            ("share: {servers: [redis://a], fleet: \"a b\"}", "share.fleet must be letters"),
            ("share: {servers: [redis://a], password_file: /nowhere}", "share.password_file: /nowhere cannot be read"),
            (
                "share: {servers: [redis://a], password_file: /dev/null}",
                "share.password_file: /dev/null has an empty first line: write the password there"
            ),
            ("share: {servers: [redis://a], user: node}", "share.user needs share.password_file"),
        ])
    func mistakes(_ text: String, _ sentence: String) {
        var reader = SettingsReader()
        reader.read(file: "cistern.yaml", text: Array(text.utf8))
        SharingCheck.check(&reader)
        #expect(reader.mistakes.contains { "\($0)".contains(sentence) })
    }

    @Test(
        "a private cache, also of a single API, cannot be shared",
        arguments: [
            ("cache: {role: private}\nupstream: {url: http://a}", ["cache.role cannot be private with share.servers"]),
            ("cache: {role: shared}\nupstream: {url: http://a}", []),
            (
                "apis: [{name: a, upstream: http://a}, {name: kiosk, path: /k, role: private, upstream: http://k}]",
                ["API kiosk: cache.role cannot be private with share.servers"]
            ),
            (
                "cache: {role: private}\napis: [{name: a, role: shared, upstream: http://a}, {name: b, path: /b, upstream: http://b}]",
                ["API b: cache.role cannot be private with share.servers"]
            ),
        ] as [(String, [String])])
    func ownCache(_ text: String, _ sentences: [String]) {
        func mistakes(_ text: String) -> [String] {
            var reader = SettingsReader()
            reader.read(file: "cistern.yaml", text: Array(text.utf8))
            reader.finish()
            SettingsCheck.check(&reader)
            return reader.mistakes.map(\.sentence).filter { $0.contains("cache.role") }
        }
        let told = mistakes("share: {servers: [redis://a]}\n" + text)
        #expect(told.count == sentences.count && zip(told, sentences).allSatisfy { $0.hasPrefix($1) }, "\(told)")
        #expect(mistakes(text).isEmpty)
    }

    @Test("a secret file that other users can read causes a warning")
    func readable() throws {
        var settings = CisternSettings()
        let files = [try file("one", "a"), try file("other", "b")]
        (settings.share.secretFile, settings.share.passwordFile, settings.share.key) = (files[0], files[1], "/nowhere")
        for file in files { chmod(file, 0o600) }
        #expect(SecretFiles.warnings(settings).isEmpty)
        // A file of root may be readable by the group of the user that runs Cistern.
        chmod(files[0], 0o640)
        #expect(SecretFiles.warnings(settings).isEmpty == (geteuid() == 0))
        chmod(files[0], 0o644)
        chmod(files[1], 0o604)
        #expect(SecretFiles.warnings(settings).map { $0.prefix { $0 != ":" } } == ["share.secret_file", "share.password_file"])
    }
}

// Options by which a command finds the running Cistern. By default, Cistern's own settings determine its socket.

import Administration
import ArgumentParser
import Glibc
import Reactor
import ReverseProxy
import Settings

struct AdminOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Address of the admin interface: unix:/path, HOST:PORT or https://HOST:PORT. By default, the socket in the cache directory.",
            valueName: "address"))
    var admin: String?

    @Option(help: ArgumentHelp("File with the bearer token of an admin interface on TCP.", valueName: "file"))
    var tokenFile: String?

    @OptionGroup var tls: CommandTLSOptions

    @Option(name: [.short, .long], help: "Configuration file of the running Cistern.")
    var config: String?

    @Option(help: "Cache directory of the running Cistern.")
    var cacheDir: String?

    func client() throws -> AdminClient {
        let settings = try Self.reachingSettings(config: config, cacheDir: cacheDir, isPlaceKnown: admin != nil)
        let file = tokenFile ?? settings.admin.tokenFile
        var token: [UInt8]?
        if !file.isEmpty {
            guard let text = FileContent.read(file) else { throw AdminFailure(SystemError.words(file)) }
            guard let word = AdminToken.parse(text) else {
                throw AdminFailure(
                    "\(file) contains no token: it must contain one word of at least \(AdminToken.shortest) letters and digits")
            }
            token = word
        }
        let text = try address(settings)
        guard let address = CommandTarget(text, tls.files) else {
            throw AdminFailure(
                AddressMistake.sentence(text.hasPrefix("/") ? "unix:" + text : text) ?? "\(UpstreamURL.shown(text)) is not an address")
        }
        return AdminClient(address: address, token: token, question: question(settings))
    }

    /// Question about the address, by the option or setting that determined it.
    private func question(_ settings: CisternSettings) -> String {
        if admin != nil { return "the address is in its admin_listen, or is its admin.socket" }
        if settings.admin.socket == "off" { return "it was started with these settings (--config gives others, --admin an address)" }
        if !settings.admin.socket.isEmpty { return "this is its admin.socket (--config gives other settings, --admin another address)" }
        return "this is its cache directory (--cache-dir or --config gives another, --admin an address)"
    }

    private func address(_ settings: CisternSettings) throws -> String {
        if let admin { return admin }
        if settings.admin.socket == "off" {
            guard let first = settings.adminListen.first else {
                throw AdminFailure("the settings have no admin interface: set admin.socket or admin_listen")
            }
            return first.address.reachable
        }
        guard !settings.admin.socket.isEmpty || !ProxySettings.storeDirectory(settings).isEmpty else {
            throw AdminFailure(
                "the cache directory is unknown, because neither HOME nor XDG_CACHE_HOME is an absolute path: give --cache-dir or --admin"
            )
        }
        return "unix:" + AdminSettings.socketPath(settings)
    }

    /// Configuration file of the installed service, for commands of root, since other users have no access to its socket; nil if there is
    /// none.
    static var serviceFile: String? {
        let file = "/etc/cistern/cistern.yaml"
        return geteuid() == 0 && access(file, R_OK) == 0 ? file : nil
    }

    /// The file of the working directory, which `serve` uses too, or of the service.
    private static func ownFile(_ environment: [String: String]) -> String? {
        WorkingDirectoryFile.find(environment) == .usable ? WorkingDirectoryFile.name : serviceFile
    }

    /// Cache directory of the service, as defined by its package.
    private static let serviceDirectory = "/var/cache/cistern"

    /// The settings that determine the address of the running Cistern. Mistakes in the file are ignored: Cistern runs with its former
    /// settings, and their repair may need the commands.
    /// - Parameter isPlaceKnown: use the default location if the file cannot be read.
    static func reachingSettings(config: String?, cacheDir: String?, isPlaceKnown: Bool) throws -> CisternSettings {
        var reader = try reader(config: config, cacheDir: cacheDir)
        if reader.isComplete || cacheDir != nil { return reader.settings }
        if let serviceFile, config == nil || config == serviceFile {
            reader.read(path: "store.directory", .one(serviceDirectory), option: "the service")
        } else if !isPlaceKnown {
            throw AdminFailure("\(reader.mistakes[0]); give --admin or --cache-dir")
        }
        return reader.settings
    }

    /// Settings from file, environment and options, even if a proxy could not start with them.
    private static func reader(config: String?, cacheDir: String?) throws -> SettingsReader {
        var reader = SettingsReader()
        let environment = Environment.all()
        if let file = config ?? environment["CISTERN_CONFIG"] ?? (cacheDir == nil ? ownFile(environment) : nil) {
            guard let text = FileContent.read(file) else { throw AdminFailure(SystemError.words(file)) }
            reader.read(file: file, text: text)
        }
        reader.read(environment: environment)
        if let cacheDir { reader.read(path: "store.directory", .one(cacheDir), option: "--cache-dir") }
        return reader
    }
}

struct CommandTLSOptions: ParsableArguments {
    @Option(help: ArgumentHelp("For https: CA certificates (PEM), instead of the system's.", valueName: "file"))
    var caFile: String?

    @Option(help: ArgumentHelp("For https: client certificate (PEM), if the server requests one.", valueName: "file"))
    var clientCert: String?

    @Option(help: ArgumentHelp("For https: private key of the client certificate (PEM), if it is in a separate file.", valueName: "file"))
    var clientKey: String?

    var files: SecuredAddress.Files {
        SecuredAddress.Files(authorities: caFile ?? "", certificate: clientCert ?? "", key: clientKey ?? "")
    }
}

extension String {
    /// The address, with a wildcard replaced by the loopback address.
    var reachable: String {
        let scheme = lowercased().hasPrefix("https://") ? prefix(8) : prefix(0)
        let rest = dropFirst(scheme.count)
        guard rest.hasPrefix("0.0.0.0:") || rest.hasPrefix(":") else { return self }
        return scheme + "127.0.0.1:" + (rest.split(separator: ":").last ?? "")
    }
}

/// A command that queries a running Cistern. An error is printed as one line on standard error, with exit code 1.
protocol AdminCommand: ParsableCommand {
    var options: AdminOptions { get }
    func run(_ client: AdminClient) throws
}

extension AdminCommand {
    func run() throws { try Self.reporting { try run(options.client()) } }

    static func reporting(_ run: () throws -> Void) throws {
        signal(SIGPIPE, SIG_DFL)
        try reportingFailure(run)
    }
}

extension ParsableCommand {
    /// Prints a failure as one line on standard error, and throws exit code 1.
    static func reportingFailure(_ run: () throws -> Void) throws {
        do { try run() } catch let failure where failure is AdminFailure || failure is NewFile.Failure {
            StandardError.write("cistern: \(failure)\n")
            throw ExitCode.failure
        }
    }
}

enum StandardOutput {
    /// Error number of the first write that failed, other than into a closed pipe; nil if none has.
    private static let failure = Mutex<Int32?>(nil)

    static var hasFailed: Bool { failure.withLock { $0 != nil } }

    static func write(_ bytes: [UInt8]) {
        if WholeWrite.write(bytes, to: STDOUT_FILENO) < bytes.count { note(errno) }
    }

    /// Reports output that is not complete.
    /// - Returns: the exit code: `code`, or 1 instead of 0 if the output is not complete.
    static func finish(_ code: Int32) -> Int32 {
        guard let failure = failure.withLock(\.self) else { return code }
        StandardError.write("cistern: standard output cannot be written: \(SystemError.words(failure))\n")
        return code == 0 ? ExitCode.failure.rawValue : code
    }

    private static func note(_ error: Int32) {
        guard error != EPIPE else { return }
        failure.withLock { $0 = $0 ?? error }
    }

    static func write(_ text: String) { write(Array(text.utf8)) }
}

/// Replaces the standard library's function, which ignores errors.
func print(_ text: String, terminator: String = "\n") { StandardOutput.write(text + terminator) }

// Checks what a start needs from the machine: cache directory, addresses, log files, host names. `check` reports problems before `serve`
// would encounter them.

import CSystem
import CacheStore
import Dispatch
import Downstream
import Glibc
import Reactor
import ResponseCache
import ReverseProxy
import Settings
import Upstream

enum StartCheck {
    /// Reports a missing cache directory if there is no home directory.
    static func checkDefaultDirectory(_ reader: inout SettingsReader) {
        guard reader.settings.store.directory.isEmpty, ProxySettings.defaultDirectory == nil else { return }
        reader.add(
            about: "store.directory",
            "store.directory is missing: neither HOME nor XDG_CACHE_HOME of the environment is an absolute path; set it to a directory")
    }

    /// Reports a cache directory that is implausible, or that other users can change.
    static func checkDirectory(_ reader: inout SettingsReader) {
        let directory = ProxySettings.storeDirectory(reader.settings)
        guard !directory.isEmpty else { return }
        guard let fault = DirectoryFault.find(at: directory, makesParents: reader.settings.store.directory.isEmpty) else { return }
        reader.add(about: "store.directory", "store.directory: \(fault)")
    }

    /// Warnings about conditions that may change before `serve` starts, or that do not prevent the start.
    static func warnings(_ settings: CisternSettings, _ proxy: ProxySettings) -> [String] {
        directoryWarnings(settings) + sizeWarnings(settings) + challengeWarnings(proxy)
            + addressWarnings(proxy, holder: holder(of: ProxySettings.storeDirectory(settings))) + logWarnings(settings.log)
            + (proxy.apis.isEmpty ? [proxy] : proxy.apis).flatMap { $0.upstream.atEachAddress }.flatMap {
                nameWarnings($0, proxy.listening.listeners)
            }
    }

    private static func directoryWarnings(_ settings: CisternSettings) -> [String] {
        let directory = ProxySettings.storeDirectory(settings)
        if let holder = holder(of: directory) {
            return [
                "store.directory: \(holder) already uses the cache directory \(directory): apply these settings with cistern reload, replace it with "
                    + "cistern serve --take-over, or choose another directory"
            ]
        }
        let code = DirectoryState.writeError(at: directory)
        guard code != 0 else { return [] }
        let effect = settings.store.required ? "serve would not start (store.required)" : "responses would be forwarded and not stored"
        return ["store.directory: \(directory) cannot be written to (\(SystemError.words(code))): \(effect)"]
    }

    /// Describes the process that uses a cache directory; nil if there is none. After a take-over, the lock still has the number of the
    /// process that ended.
    private static func holder(of directory: String) -> String? {
        DirectoryState.holder(of: directory).map { kill($0, 0) != 0 && errno == ESRCH ? "a running Cistern" : "process \($0)" }
    }

    private static func challengeWarnings(_ proxy: ProxySettings) -> [String] {
        guard let directory = proxy.listening.challengeDirectory else { return [] }
        var status = stat()
        let code = stat(directory, &status) == 0 ? (status.st_mode & S_IFMT == S_IFDIR ? 0 : ENOTDIR) : errno
        guard code == 0, access(directory, R_OK | X_OK) == 0 else {
            let reason = SystemError.words(code == 0 ? EACCES : code)
            return ["tls.acme_challenges: \(directory) cannot be read (\(reason)): ACME challenges would get 404"]
        }
        return []
    }

    private static func sizeWarnings(_ settings: CisternSettings) -> [String] {
        WritingReport.shortage(at: ProxySettings.storeDirectory(settings), limitBytes: settings.store.size).map { [$0] } ?? []
    }

    /// - Parameter holder: the process that uses the cache directory; nil if there is none.
    private static func addressWarnings(_ proxy: ProxySettings, holder: String?) -> [String] {
        (proxy.listening.listeners + proxy.listening.adminListeners).compactMap { listener in
            BoundSocket.whyNot(listener.address).map { error in
                holder.map { "\(error): if that is not \($0), serve would not start" } ?? "\(error): serve would not start"
            }
        }
    }

    private static func logWarnings(_ log: CisternSettings.Log) -> [String] {
        guard log.access != "off", log.access != "stdout" else { return [] }
        let existing = Descriptor(csystem_open(log.access, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0))
        guard !existing.isOpen else { return [] }
        var code = errno
        if code == ENOENT {
            // `serve` would create the file.
            let slash = log.access.lastIndex(of: "/")
            let directory = slash.map { $0 == log.access.startIndex ? "/" : String(log.access[..<$0]) } ?? "."
            if faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0 { return [] }
            code = errno
        }
        let directory = code == ENOENT ? "; systemd makes the directory that LogsDirectory= names" : ""
        return ["log.access: \(log.access) cannot be opened (\(SystemError.words(code))): serve would not start\(directory)"]
    }

    /// Warnings about the upstream's host name, if Cistern resolves it itself.
    private static func nameWarnings(_ upstream: UpstreamSettings, _ listeners: [ListenerSettings]) -> [String] {
        guard upstream.unixSocket == nil, upstream.proxy == nil else { return [] }
        guard let found = lookUp(upstream.host) else {
            return [
                "upstream.url: the name \(upstream.host) does not resolve within \(lookUpPatience) s: the upstream would count as down until it does"
            ]
        }
        guard found.code == 0 else {
            let reason = String(cString: gai_strerror(found.code))
            return ["upstream.url: the name \(upstream.host) does not resolve now (\(reason)): until it does, the upstream counts as down"]
        }
        for address in found.addresses {
            for listener in listeners where listener.address.port == upstream.port && address.reaches(listener.address) {
                return [
                    "upstream.url: \(upstream.host) resolves to \(address.text), and Cistern itself listens on \(listener.address), so requests "
                        + "would loop: set the API's address"
                ]
            }
        }
        return []
    }

    /// One address of an upstream's name.
    private struct FoundAddress: Sendable {
        let text: String
        /// Whether this machine has the address.
        let isOwn: Bool

        /// - Parameter info: result of getaddrinfo(3), without a port.
        init(_ info: addrinfo) {
            var name = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            getnameinfo(info.ai_addr, info.ai_addrlen, &name, socklen_t(name.count), nil, 0, NI_NUMERICHOST)
            let text = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            self.text = text.hasPrefix("::ffff:") && text.contains(".") ? String(text.dropFirst(7)) : text
            // bind(2) fails for an address of another machine.
            let socket = Descriptor(socket(info.ai_family, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0))
            isOwn = socket.isOpen && bind(socket.number, info.ai_addr, info.ai_addrlen) == 0
        }

        /// Whether connections to the address arrive at a listener with this port.
        func reaches(_ listener: ListenAddress) -> Bool {
            switch listener {
            case .ipv4(let host, _): host == text || listener.isWildcard && isOwn && !text.contains(":")
            case .ipv6(let host, _): host == text || listener.isWildcard && isOwn && text.contains(":")
            case .unix, .activated: false
            }
        }
    }

    private static let lookUpPatience = 3

    /// Result code and addresses of getaddrinfo(3); nil after a timeout.
    private static func lookUp(_ host: String) -> (code: Int32, addresses: [FoundAddress])? {
        // Written by the thread.
        let result = Mutex<(code: Int32, addresses: [FoundAddress])?>(nil)
        let done = DispatchSemaphore(value: 0)
        _ = PlainThread.start {
            var hints = addrinfo()
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
            var found: UnsafeMutablePointer<addrinfo>?
            let code = getaddrinfo(host, nil, &hints, &found)
            var (addresses, next) = ([FoundAddress](), found)
            while let info = next {
                addresses.append(FoundAddress(info.pointee))
                next = info.pointee.ai_next
            }
            if let found { freeaddrinfo(found) }
            result.withLock { [addresses] in $0 = (code, addresses) }
            done.signal()
        }
        _ = done.wait(timeout: .now() + .seconds(lookUpPatience))
        return result.withLock { $0 }
    }
}

// Raises the limit of open file descriptors, and warns if it is too low for the settings. Each client connection and each upstream
// connection needs a descriptor. Clients must leave enough of them for the upstream.

import Downstream
import Glibc
import ReverseProxy
import Upstream

enum DescriptorLimit {
    /// Descriptors other than connections: files of the store, event loops, listeners, logs.
    private static let others = 128

    /// Raises the soft limit to the hard limit.
    static func raise() {
        guard var limit else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// Lowers the limit of client connections if the process may open too few descriptors for all connections.
    /// - Returns: a warning; nil if the descriptors suffice.
    static func fit(_ settings: inout ProxySettings) -> String? {
        let apis = settings.apis.isEmpty ? [settings] : settings.apis
        let (clients, upstream) = (settings.downstream.maximumConnections, apis.reduce(0) { $0 + connections($1.upstream) })
        let needed = clients + settings.shards * upstream + others
        guard let hard = limit?.rlim_max, hard < rlim_t(needed) else { return nil }
        let accepted = min(clients, max(Int(hard) - (needed - clients), Int(hard) / 2))
        settings.downstream.maximumConnections = accepted
        return """
            up to \(needed) file descriptors are needed, but the process may open only \(hard), so at most \(accepted) client connections \
            are accepted: raise its hard limit (ulimit -Hn), or lower limits.connections (\(clients)) or upstream.connections (\(upstream) \
            for each of \(settings.shards) shards, over all APIs and addresses)
            """
    }

    /// Upstream connections of a shard. The maximum applies to each address.
    private static func connections(_ upstream: UpstreamSettings) -> Int { upstream.maximumConnections * upstream.atEachAddress.count }

    private static var limit: rlimit? {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 ? limit : nil
    }
}

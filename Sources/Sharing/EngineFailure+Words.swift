// Why the engine does not do what it is asked, for people: in the log, by `cistern check` and by `cistern share status`.

import Engine

extension EngineFailure {
    /// Behind a server's name, or "the engine".
    /// - Parameter fleet: `share.fleet`.
    public func sentence(fleet: String) -> String {
        switch self {
        case .unreachable: "cannot be reached"
        case .connectionLost: "has ended the connection"
        case .timedOut: "does not reply in time"
        case .breakerOpen: "has failed lately and is not asked"
        case .queueFull: "is asked for more than it does"
        case .denied:
            "does not know the user or the password, or asks for one (share.user, share.password_file; each server has users of its own)"
        case .commandForbidden:
            "does not let the user use a command that is needed (the ACL line in Configuration/Sharing.md has all; cistern check names it)"
        case .keyForbidden: "does not let the user use the keys of this fleet: its ACL needs ~cistern:\(fleet):*"
        case .loading: "is reading its data in"
        case .readOnly: "is a replica, or has lost its primary"
        case .clusterDown: "says that the Cluster is down: some of its slots are nobody's, or most of its primaries cannot be reached"
        case .notCluster:
            "is not a Cluster, and share.servers has several addresses: name the one address that leads to the primary (a managed engine's, a balancer's, a name that Sentinel moves), or servers of one Cluster"
        case .redirected: "is not the one that has it, and the others say the same"
        case .full: "takes nothing more: its memory or its disk is full, or it has too few replicas"
        case .protocolError: "says what no Redis says"
        case .untrusted: "has a certificate that is not trusted (share.tls.ca_file), or does not trust ours"
        case .noTLS: "can be reached, and does not agree on TLS: has it TLS on that port? rediss:// asks for it, redis:// does not"
        case .noDatabase:
            "does not give the database that share.servers names behind the port: a Cluster has 0 only, and the user needs +select for another"
        case .closed: "is not asked any more"
        }
    }

    /// Whether it stays so until somebody changes a setting, here or there.
    var isMisconfiguration: Bool {
        switch self {
        case .denied, .commandForbidden, .keyForbidden, .untrusted, .notCluster, .noDatabase: true
        case .unreachable, .connectionLost, .timedOut, .breakerOpen, .queueFull, .loading, .readOnly, .clusterDown, .redirected, .full,
            .protocolError, .noTLS, .closed:
            false
        }
    }
}

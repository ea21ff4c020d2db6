// The table of all settings with their names, permitted values and help texts. The YAML file, the environment and the command line are read
// by it. Tests compare the documentation with it.

import Addresses
import Administration
import CachePolicy
import Downstream
import Figures
import Forwarding
import HTTPCore
import JSON
import Logging
import ReverseProxy
import Tracing
import Upstream

public enum SettingsTable {
    private static let hour = 3_600_000
    private static let gibibyte = 1 << 30

    /// All settings that are not retired.
    public static var current: [Setting<CisternSettings>] { all.filter { $0.replacement == nil } }

    /// All settings, including retired ones.
    public static let all: [Setting<CisternSettings>] =
        upstream + failure + listening + tls + caching
        + FreshnessGroup.all.map { $0.within(\.otherRoute, path: "cache.\($0.path)") }
        + CredentialSettingsTable.all.map { $0.within(\.otherRoute) } + limits + forwarding
        + CrossOriginGroup.all.map { $0.within(\.otherRoute) } + logging
        + tracing + SharingSettingsTable.all + RetiredSettings.all

    private static let upstream: [Setting<CisternSettings>] = [
        Setting(
            path: "upstream.url", binding: .text(\.upstreamURL), help: "The API's base URL: http or https, with a path where it has one."),
        Setting(
            path: "upstream.unix_socket", binding: .text(\.proxy.upstream.unixSocket), help: "Ask through this Unix socket instead of TCP."),
        Setting(
            path: "upstream.http2", binding: .choice(\.proxy.upstream.http2),
            help: "HTTP/2 to the upstream: where it is agreed in TLS, never, or always, in clear too."),
        Setting(path: "upstream.proxy", binding: .text(\.proxy.upstream.proxy), help: "A forward proxy on the way to the upstream."),
        Setting(
            path: "upstream.ca_file", binding: .text(\.proxy.upstream.caFile), help: "Certificates that the upstream's is checked against."),
        Setting(
            path: "upstream.client_certificate", binding: .text(\.proxy.upstream.clientCertificate), help: "Our certificate, as a PEM file."
        ),
        Setting(
            path: "upstream.client_key", binding: .text(\.proxy.upstream.clientKey), help: "The key of our certificate, as a PEM file."),
        Setting(path: "upstream.verify", binding: .flag(\.proxy.upstream.verify), help: "Check the upstream's certificate. Leave it on."),
        Setting(
            path: "upstream.connect_timeout", binding: .duration(\.proxy.upstream.connectTimeout, 1...hour),
            help: "Resolving, connecting and TLS together; also the longest wait for a free connection."),
        Setting(
            path: "upstream.first_byte_timeout", binding: .duration(\.proxy.upstream.firstByteTimeout, 1...hour),
            help: "From the request sent to the first byte of the response."),
        Setting(
            path: "upstream.between_bytes_timeout", binding: .duration(\.proxy.upstream.betweenBytesTimeout, 1...hour),
            help: "Longest pause within a response."),
        Setting(
            path: "upstream.total_timeout", binding: .duration(\.proxy.upstream.totalTimeout, 0...hour),
            help: "A whole exchange with the upstream; 0 for no limit."),
        Setting(
            path: "upstream.connections", binding: .count(\.proxy.upstream.maximumConnections, 1...10_000),
            help: "Connections to the upstream of each shard, and requests under way on them; more requests wait."),
        Setting(
            path: "upstream.queue", binding: .count(\.proxy.upstream.queueLimit, 0...100_000),
            help: "Requests of each shard that may wait for a connection, for upstream.connect_timeout; others get the stored copy or 503."),
        Setting(
            path: "upstream.retry_budget", binding: .count(\.proxy.upstream.retryBudget, 0...100),
            help:
                "Maximum number of retries, in percent of the requests sent: of safe requests that got no byte of a response, on a new connection. 0 disables them."
        ),
    ]

    private static let failure: [Setting<CisternSettings>] = [
        Setting(
            path: "failure.threshold", binding: .count(\.proxy.upstream.failure.threshold, 1...10_000),
            help: "Failed attempts to connect in a row after which the address counts as unreachable."),
        Setting(
            path: "failure.window", binding: .duration(\.proxy.upstream.failure.window, 1_000...hour),
            help:
                "Minimum time without a success after which a route or the whole upstream counts as failing. A stopped request is repeated for this long."
        ),
        Setting(
            path: "failure.recheck", binding: .duration(\.proxy.upstream.failure.recheck, 0...hour),
            help:
                "Interval between checks of what fails. After a failed attempt, stored copies are served at once for twice this time. 0 disables the failure memory."
        ),
        Setting(
            path: "failure.retry_after_limit", binding: .duration(\.proxy.upstream.failure.retryAfterLimit, 0...(24 * hour)),
            help: "Maximum Retry-After that is followed, for the client and the request that got it. 0 ignores it."),
        Setting(
            path: "failure.probe", binding: .text(\.probe),
            help:
                "Health check of the upstream that does not depend on clients: GET /health 200 every 10s. The status and the interval are optional. Empty for none."
        ),
    ]

    private static let listening: [Setting<CisternSettings>] = [
        Setting(
            path: "listen", binding: .items(\.listen),
            help:
                "Addresses: HOST:PORT, [IPV6]:PORT, :PORT, unix:/path, systemd:NAME, for TLS https://HOST:PORT; or each with separate settings."
        ),
        Setting(
            path: "admin_listen", binding: .items(\.adminListen),
            help:
                "Addresses for /metrics, /healthz and /readyz, which are on the proxy's own without one; the admin interface is there too."
        ),
        Setting(
            path: "trusted_proxies", binding: .list(\.trustedProxies),
            help:
                "Addresses and networks of proxies and balancers in front, such as 10.0.0.0/8, or unix: for those that come through a Unix socket. Only their claims about the client are trusted."
        ),
        Setting(
            path: "access.allow", binding: .list(\.access.allow),
            help: "Networks of admitted clients, such as 192.0.2.0/24; the longest matching prefix decides. Empty for all."),
        Setting(path: "access.deny", binding: .list(\.access.deny), help: "Networks whose clients may not: they get 403."),
        Setting(
            path: "admin.socket", binding: .text(\.admin.socket),
            help: "The admin interface's Unix socket; empty for admin.sock in store.directory, off for none."),
        Setting(
            path: "admin.token_file", binding: .text(\.admin.tokenFile),
            help:
                "A file with the bearer token that the admin interface on TCP asks for; without one only loopback addresses have it. The status page takes it as a password."
        ),
        Setting(
            path: "admin.records", binding: .count(\.proxy.records, 0...1_000_000),
            help: "Exchanges of each shard that `cistern why` can explain.", needsRestart: true),
        Setting(
            path: "admin.debug_fields", binding: .list(\.admin.debugFields),
            help:
                "Request fields that Cistern acts on: why (Cistern-Why explains the response), key (Cistern-Key shows the cache key in Cache-Status), mode (Cistern-Mode chooses the mode)."
        ),
        Setting(
            path: "admin.faults", binding: .flag(\.proxy.admin.allowsFaults),
            help: "Let the administrator inject faults between Cistern and its upstream, to practise outages."),
        Setting(
            path: "shards", binding: .count(\.proxy.shards, 0...64), help: "Event loops; 0 for one for each core that the process may use.",
            needsRestart: true),
    ]

    private static let tls: [Setting<CisternSettings>] = [
        Setting(
            path: "tls.certificates", binding: .items(\.tls.certificates),
            help:
                "Certificates for addresses with https, each with its key: chosen by the name that the client asks for, else the first."
        ),
        Setting(
            path: "tls.client_ca", binding: .text(\.tls.clientCA), help: "Certificates that clients' are checked against, as a PEM file."),
        Setting(
            path: "tls.client_verify", binding: .choice(\.tls.clientVerify),
            help: "Whether clients are asked for a certificate. One that is not good ends the connection, also where it is optional."),
        Setting(
            path: "tls.client_identity", binding: .choice(\.proxy.listening.tls.identification),
            help: "The part of a client's certificate that selects its partition: issuer and subject, or the key."),
        Setting(
            path: "tls.send_client_certificate", binding: .flag(\.proxy.listening.tls.sendsCertificate),
            help: "Send the client's verified certificate to the upstream in Client-Cert (RFC 9440); then its stored responses are its own."
        ),
        Setting(
            path: "tls.acme_challenges", binding: .text(\.proxy.listening.challengeDirectory),
            help: "Serve /.well-known/acme-challenge/ from this directory, for certbot, lego and the like; empty for not."),
    ]

    private static let caching: [Setting<CisternSettings>] = [
        Setting(
            path: "store.directory", binding: .text(\.store.directory),
            help: "Where responses are kept; empty for the user's cache directory.", needsRestart: true),
        Setting(
            path: "store.size", binding: .size(\.store.size, (4 << 20)...(4096 * gibibyte)),
            help: "Limit on the store's files. A disk with less free space gets a smaller store.",
            needsRestart: true),
        Setting(
            path: "store.required", binding: .flag(\.store.required),
            help: "Do not start with a store that cannot be written to or read; else responses are passed on and not kept then.",
            needsRestart: true),
        Setting(
            path: "cache.mode", binding: .choice(\.proxy.mode),
            help:
                "At the start: live as the rules say, offline never sends requests to the upstream, record always does, replay serves stored responses."
        ),
        Setting(
            path: "cache.policy", binding: .choice(\.cache.policy),
            help:
                "rescue: stored responses are served while the upstream fails, regardless of their Cache-Control about staleness. strict: RFC 9111 to the letter. rfc9111: strict, and other settings as a plain shared cache has them, for comparisons."
        ),
        Setting(
            path: "cache.store", binding: .choice(\.proxy.policy.keepsAny, [("json", false), ("any", true)]),
            help: "json: 2xx responses of the content types below. any: every response that RFC 9111 lets a cache keep."),
        Setting(
            path: "cache.store_errors", binding: .choice(\.proxy.policy.keepsAnyError, [("safe", false), ("letter", true)]),
            help:
                "With store: any. safe: 400, 401, 429 and other errors that one request brings about are never kept. letter: they are, where they say how long."
        ),
        Setting(
            path: "cache.role", binding: .choice(\.proxy.policy.isPrivate, [("shared", false), ("private", true)]),
            help: "shared: credentials have partitions of their own. private: the cache is one user's alone (laptop, sidecar, kiosk)."),
        Setting(
            path: "cache.heuristics", binding: .count(\.proxy.policy.heuristicPercent, 0...100),
            help: "Freshness of responses that give none, in percent of the time since Last-Modified; at most a day. 0 for none."),
        Setting(
            path: "cache.targeted_fields", binding: .list(\.proxy.policy.targetedFields),
            help: "Fields that say how we cache instead of Cache-Control (RFC 9213); the first that is there counts.", changes: .names),
        Setting(
            path: "cache.entity_tags", binding: .flag(\.proxy.policy.makesEntityTags),
            help: "Give stored JSON without a validator an ETag made of its data, so that clients get 304."),
        Setting(
            path: "cache.json", binding: .choice(\.proxy.policy.reading, [("standard", .otherBytes), ("lenient", .extensions)]),
            help: "lenient: JSON with NaN, Infinity or a prefix such as )]}' is taken too, and never replaces JSON by RFC 8259."),
        Setting(
            path: "cache.set_cookie", binding: .choice(\.proxy.policy.setCookie),
            help: "Responses with Set-Cookie: stored without it, with it (everyone gets the cookie), or not at all."),
        Setting(
            path: "cache.content_types", binding: .list(\.cache.contentTypes),
            help: "Media types that are kept: type/subtype, +suffix, or * for all.", changes: .mediaTypes),
        Setting(
            path: "cache.credential_fields", binding: .list(\.proxy.policy.credentials.fields),
            help:
                "Request fields that carry credentials: each combination of their values has a separate partition. * stands for any beginning.",
            changes: .names),
        Setting(
            path: "cache.group_credentials", binding: .list(\.proxy.policy.credentials.groupFields),
            help:
                "Those of them that a group of users has in common, such as a tenant: with these alone no private response is kept.",
            changes: .names),
        Setting(
            path: "cache.credential_cookies", binding: .list(\.proxy.policy.credentials.cookies),
            help: "Cookies that count as credentials, where Cookie is such a field; * at the end stands for any rest. strict: all do.",
            changes: .names),
        Setting(
            path: "cache.ignored_cookies", binding: .list(\.proxy.policy.credentials.ignoredCookies),
            help: "Cookies that do not identify users, and so do not count; responses must not depend on them.", changes: .names
        ),
        Setting(
            path: "cache.key_fields", binding: .list(\.proxy.policy.keyFields),
            help: "Request fields that are part of every key, for upstreams that react to them without saying so in Vary."),
        Setting(
            path: "cache.harmless_fields", binding: .list(\.cache.harmlessFields),
            help: """
                Changes to the list of request fields that make no difference to a response: +name adds a field, -name removes one. Requests \
                that differ in another field share no stored response, unless the upstream sends Vary, public, s-maxage or a lifetime.
                """),
        Setting(
            path: "cache.buffer_limit", binding: .size(\.proxy.content.bufferLimitBytes, 1_024...gibibyte),
            help: "Longest response that is buffered before it is sent, and so the largest that is stored."),
        Setting(
            path: "cache.compress", binding: .choice(\.otherRoute.rules.compression),
            help:
                "The coding that stored text gets where it came without one; clients get it so where they take it and no secret may be in it (BREACH). always: gzip, also then."
        ),
        Setting(
            path: "cache.rescue_after", binding: .duration(\.otherRoute.rules.rescueAfter, 0...hour),
            help: "If a stored copy may be served, the upstream has this long for a complete good response; 0 for no limit."),
        Setting(
            path: "cache.rescue_with_shared", binding: .choice(\.otherRoute.rules.sharedRescueMode),
            help:
                "Whether a client without a copy in its partition may get the copy for clients without credentials: a public one, or also one that set all the client's cookies."
        ),
        Setting(
            path: "cache.gone", binding: .choice(\.proxy.remembersGone, [("remember", true), ("ignore", false)]),
            help:
                "remember: after a 410, a 404 in JSON or a user's 403 in JSON, that response is served while the upstream fails, not the copy."
        ),
        Setting(
            path: "cache.collapse_wait", binding: .duration(\.proxy.collapsing.wait, 0...hour),
            help:
                "Maximum time that a request waits for the response to an identical request. After that it is sent too. 0 disables collapsing."
        ),
        Setting(
            path: "cache.refresh_ahead", binding: .count(\.otherRoute.rules.refreshAhead, 0...99),
            help:
                "Remaining percentage of the freshness lifetime below which a hit starts a background refresh, after three hits. 0 disables it."
        ),
    ]

    private static let limits: [Setting<CisternSettings>] = [
        Setting(
            path: "limits.target", binding: .size(\.proxy.downstream.requestLimits.targetBytes, 256...16_384),
            help: "Longest request target; beyond it 414."),
        Setting(
            path: "limits.head", binding: .size(\.proxy.downstream.requestLimits.headBytes, 1_024...65_536),
            help: "Largest request head; beyond it 431."),
        Setting(
            path: "limits.fields", binding: .count(\.proxy.downstream.requestLimits.fieldCount, 10...1_000),
            help: "Most header fields of a request; beyond it 431."),
        Setting(
            path: "limits.content", binding: .size(\.proxy.downstream.contentLimitBytes, 0...(1024 * gibibyte)),
            help: "Longest request content; beyond it 413. 0 for no limit."),
        Setting(
            path: "limits.request_buffer", binding: .size(\.proxy.downstream.requestBufferBytes, 0...(64 << 20)),
            help: "Request content up to this length is buffered before the request is sent; longer content is streamed. 0 for none."),
        Setting(
            path: "limits.connections", binding: .count(\.proxy.downstream.maximumConnections, 1...1_000_000),
            help: "Maximum number of open client connections. At the limit the longest idle one is closed, of the address that has most."),
        Setting(
            path: "limits.connections_per_address", binding: .count(\.proxy.downstream.connectionsPerAddress, 0...1_000_000),
            help: "Open connections of one client address; more are closed at once. 0 for no limit."),
        Setting(
            path: "limits.requests_per_address", binding: .count(\.proxy.access.requestsPerAddress, 0...1_000_000),
            help: "Requests of one client address that need the upstream at once; more get 429. 0 for no limit."),
        Setting(
            path: "timeouts.handshake", binding: .duration(\.proxy.listening.tls.handshakeTimeout, 100...hour),
            help: "From a connection's beginning to the end of its TLS handshake."),
        Setting(
            path: "timeouts.head", binding: .duration(\.proxy.downstream.headTimeout, 100...hour),
            help: "From a request's first byte to the end of its head."),
        Setting(
            path: "timeouts.keep_alive", binding: .duration(\.proxy.downstream.keepAliveTimeout, 100...hour),
            help: "How long an idle connection is kept."),
        Setting(
            path: "timeouts.content", binding: .duration(\.proxy.downstream.contentTimeout, 100...hour),
            help: "Longest pause within a request's content."),
        Setting(
            path: "timeouts.content_total", binding: .duration(\.proxy.downstream.contentTotal, 100...hour),
            help: "From a request's head to the end of its content, where that is taken whole."),
        Setting(
            path: "timeouts.write", binding: .duration(\.proxy.downstream.writeTimeout, 100...hour),
            help: "Longest time without progress while a client takes its response."),
        Setting(
            path: "timeouts.stream", binding: .duration(\.proxy.upstream.streamTimeout, 0...(24 * hour)),
            help: "Longest pause within a response that is a stream; 0 for no limit."),
        Setting(
            path: "timeouts.drain_delay", binding: .duration(\.stopping.drainDelay, 0...hour),
            help: "At the end, how long /readyz says 503 while everything is still served, so that balancers send clients elsewhere first."),
        Setting(
            path: "timeouts.shutdown", binding: .duration(\.stopping.deadline, 0...hour),
            help: "How long running responses may take to finish at the end."),
    ]

    private static let forwarding: [Setting<CisternSettings>] = [
        Setting(
            path: "forwarding.name", binding: .text(\.proxy.forwarding.name),
            help: "This deployment's name in Via, Cache-Status and Proxy-Status."),
        Setting(
            path: "forwarding.forwarded", binding: .choice(\.proxy.forwarding.forwarded),
            help: "Forwarded and X-Forwarded-*: ours instead of the client's, both, the client's, or none."),
        Setting(
            path: "forwarding.client_field", binding: .choice(\.proxy.access.clientField),
            help: "The field in which trusted_proxies name the client; auto: X-Forwarded-For, else Forwarded."),
        Setting(
            path: "forwarding.names", binding: .list(\.servedNames),
            help: "The hosts that are served here, such as api.example.com or *.example.com; others get 421. Empty for any."),
        Setting(
            path: "forwarding.forward_proxy", binding: .flag(\.proxy.access.isForwardProxy),
            help: "Let clients take this for their forward proxy (http_proxy), for what is served here; other whole URIs get 403."),
        Setting(
            path: "forwarding.forward_host", binding: .flag(\.proxy.forwarding.forwardHost),
            help: "Tell the upstream the client's Host; the host is part of the key then."),
        Setting(path: "forwarding.via", binding: .flag(\.proxy.forwarding.via), help: "Add Via to requests and responses."),
        Setting(
            path: "forwarding.preserve_host", binding: .flag(\.proxy.forwarding.preserveHost),
            help: "Send the client's Host to the upstream; the host is part of the key then."),
        Setting(
            path: "forwarding.rewrite_location", binding: .flag(\.proxy.forwarding.rewriteLocation),
            help: "Make references within the upstream (Location, Content-Location, Link) relative, so that clients stay here."),
        Setting(
            path: "forwarding.override_fields", binding: .list(\.proxy.forwarding.overrideFields),
            help:
                "Client's request fields to drop, because upstreams take another route, host or method from them. X-Forwarded-* are dropped too. Empty for none.",
            changes: .names),
        Setting(
            path: "forwarding.address_fields", binding: .list(\.proxy.forwarding.addressFields),
            help: "Request fields beside X-Forwarded-For that tell a client's address: dropped, unless forwarded is trust.", changes: .names
        ),
        Setting(
            path: "forwarding.identity_fields", binding: .list(\.proxy.forwarding.identityFields),
            help:
                "Request fields by which proxies name the user, with * for any rest: dropped, unless forwarded is trust or a trusted proxy sends them.",
            changes: .names),
    ]

    private static let logging: [Setting<CisternSettings>] = [
        Setting(
            path: "log.level", binding: .choice(\.log.level),
            help: "What the program says, on standard error."),
        Setting(path: "log.format", binding: .choice(\.log.format), help: "How it says it."),
        Setting(
            path: "log.access", binding: .text(\.log.access),
            help: "The access log: off, stdout, or a file. Reopened on SIGHUP and SIGUSR1."),
        Setting(
            path: "log.access_format", binding: .choice(\.log.accessFormat),
            help: "One line a request, in one of these forms."),
        Setting(
            path: "log.access_fields", binding: .list(\.log.accessFields),
            help:
                "What JSON lines tell, in this order; beside these query (without secrets; of all forms), user_agent, referer and upstream_phases.",
            changes: .names),
        Setting(
            path: "log.request_id", binding: .choice(\.proxy.forwarding.requestID),
            help: "Whether X-Request-Id, the client's or one that is made, is sent to the upstream, returned to the client, or both."),
    ]

    private static let tracing: [Setting<CisternSettings>] = [
        Setting(
            path: "tracing.endpoint", binding: .text(\.proxy.tracing.endpoint),
            help: "Where spans are sent, by OTLP over HTTP in JSON: http://127.0.0.1:4318, /v1/traces where it has no path. Empty: nowhere."
        ),
        Setting(
            path: "tracing.sample", binding: .share(\.proxy.tracing.samplePerMillion),
            help: "The share, from 0 to 1, of requests that are recorded where their traceparent has not decided that."),
        Setting(
            path: "tracing.limit", binding: .count(\.proxy.tracing.limit, 1...100_000),
            help: "Requests that are recorded in a second at most, whoever wants that."),
        Setting(
            path: "tracing.service_name", binding: .text(\.proxy.tracing.serviceName),
            help: "The service.name of the spans."),
    ]
}

// The table of all settings with their names, permitted values and help texts. The YAML file, the environment and the command line are read
// by it. Tests compare the documentation with it.

import Administration
import CachePolicy
import Downstream
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
        upstream + UpstreamFieldsGroup.all.map { $0.within(\.otherRoute, path: "upstream.\($0.path)") }
        + failure + listening + tls + caching
        + FreshnessGroup.all.map { $0.within(\.otherRoute, path: "cache.\($0.path)") }
        + CredentialSettingsTable.all.map { $0.within(\.otherRoute) } + limits + forwarding
        + CrossOriginGroup.all.map { $0.within(\.otherRoute) } + logging
        + tracing + NotifySettingsTable.all + SharingSettingsTable.all + RetiredSettings.all

    private static let upstream: [Setting<CisternSettings>] = [
        Setting(
            path: "upstream.url", binding: .text(\.upstreamURL), help: "Base URL of the API: http or https, optionally with a path."),
        Setting(
            path: "upstream.unix_socket", binding: .text(\.proxy.upstream.unixSocket),
            help: "Connect to the upstream through this Unix socket instead of TCP."),
        Setting(
            path: "upstream.http2", binding: .choice(\.proxy.upstream.http2),
            help: "HTTP/2 to the upstream. auto: if TLS negotiates it. off: never. prior-knowledge: always, also without TLS."),
        Setting(
            path: "upstream.proxy", binding: .text(\.proxy.upstream.proxy),
            help: "URL of a forward proxy for connections to the upstream. Empty for none."),
        Setting(
            path: "upstream.ca_file", binding: .text(\.proxy.upstream.caFile),
            help: "CA certificates that verify the upstream's certificate, as a PEM file."),
        Setting(
            path: "upstream.client_certificate", binding: .text(\.proxy.upstream.clientCertificate),
            help: "Client certificate for the upstream, as a PEM file."
        ),
        Setting(
            path: "upstream.client_key", binding: .text(\.proxy.upstream.clientKey),
            help: "Private key of the client certificate, as a PEM file."),
        Setting(
            path: "upstream.verify", binding: .flag(\.proxy.upstream.verify),
            help: "Whether the upstream's certificate is verified. Leave it on."),
        Setting(
            path: "upstream.connect_timeout", binding: .duration(\.proxy.upstream.connectTimeout, 1...hour),
            help: "Maximum time for name resolution, connecting and TLS together. Also the maximum wait for a free connection."),
        Setting(
            path: "upstream.first_byte_timeout", binding: .duration(\.proxy.upstream.firstByteTimeout, 1...hour),
            help: "Maximum time from sending the request to the first byte of the response."),
        Setting(
            path: "upstream.between_bytes_timeout", binding: .duration(\.proxy.upstream.betweenBytesTimeout, 1...hour),
            help: "Maximum pause within a response of the upstream."),
        Setting(
            path: "upstream.total_timeout", binding: .duration(\.proxy.upstream.totalTimeout, 0...hour),
            help: "Maximum time from the end of a request to the end of its response, except while the client receives it. 0 for no limit."),
        Setting(
            path: "upstream.connections", binding: .count(\.proxy.upstream.maximumConnections, 1...10_000),
            help: "Maximum number of upstream connections of each shard, and of active requests on them. Further requests wait."),
        Setting(
            path: "upstream.queue", binding: .count(\.proxy.upstream.queueLimit, 0...100_000),
            help: "Maximum number of requests of each shard that wait for a connection. Further requests get the stored response or 503."),
        Setting(
            path: "upstream.retry_budget", binding: .count(\.proxy.upstream.retryBudget, 0...100),
            help:
                "Maximum number of retries after a new connection failed, in percent of the requests sent. Safe requests, and POST on routes with methods, are retried if no byte of a response came. 0 disables these retries."
        ),
    ]

    private static let failure: [Setting<CisternSettings>] = [
        Setting(
            path: "failure.threshold", binding: .count(\.proxy.upstream.failure.threshold, 1...10_000),
            help: "Number of consecutive failed connection attempts after which an address counts as unreachable."),
        Setting(
            path: "failure.window", binding: .duration(\.proxy.upstream.failure.window, 1_000...hour),
            help:
                "Minimum time without a success after which a route or the whole upstream counts as failing. A stopped request is repeated for this long."
        ),
        Setting(
            path: "failure.recheck", binding: .duration(\.proxy.upstream.failure.recheck, 0...hour),
            help:
                "Interval between checks while the upstream fails. After a failed attempt, stored responses are served at once for twice this time. 0 disables the failure memory."
        ),
        Setting(
            path: "failure.retry_after_limit", binding: .duration(\.proxy.upstream.failure.retryAfterLimit, 0...(24 * hour)),
            help: "Maximum Retry-After that Cistern follows. It applies to the client and the request that received it. 0 ignores it."),
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
                "Addresses for clients: HOST:PORT, [IPV6]:PORT, :PORT, unix:/path, systemd:NAME, or https://HOST:PORT for TLS. An entry can also be a group of settings."
        ),
        Setting(
            path: "admin_listen", binding: .items(\.adminListen),
            help:
                "Addresses of /metrics, /healthz, /readyz and the admin interface. If empty, the first three are served on the addresses of listen."
        ),
        Setting(
            path: "trusted_proxies", binding: .list(\.trustedProxies),
            help:
                "Addresses and networks of trusted proxies and load balancers, such as 10.0.0.0/8; unix: for connections through a Unix socket. Only they may describe the client."
        ),
        Setting(
            path: "access.allow", binding: .list(\.access.allow),
            help: "Networks of admitted clients, such as 192.0.2.0/24; the longest matching prefix decides. Empty for all."),
        Setting(path: "access.deny", binding: .list(\.access.deny), help: "Networks of rejected clients. They get 403."),
        Setting(
            path: "admin.socket", binding: .text(\.admin.socket),
            help: "The admin interface's Unix socket; empty for admin.sock in store.directory, off for none."),
        Setting(
            path: "admin.token_file", binding: .text(\.admin.tokenFile),
            help:
                "File with the bearer token of the admin interface on TCP. Without a token, only loopback addresses have the interface. The status page accepts the token as password."
        ),
        Setting(
            path: "admin.records", binding: .count(\.proxy.records, 0...1_000_000),
            help: "Number of exchanges per shard that `cistern why` can explain.", needsRestart: true),
        Setting(
            path: "admin.observed_paths", binding: .count(\.proxy.observedPaths, 0...4_096),
            help: "Maximum number of paths of an API that are observed for `cistern advise`. 0: none."),
        Setting(
            path: "admin.debug_fields", binding: .list(\.admin.debugFields),
            help:
                "Request fields that Cistern acts on: why (Cistern-Why explains the response), key (Cistern-Key shows the cache key in Cache-Status), mode (Cistern-Mode chooses the mode)."
        ),
        Setting(
            path: "admin.faults", binding: .flag(\.proxy.admin.allowsFaults),
            help: "Whether an administrator may inject faults into upstream requests, to practise outages."),
        Setting(
            path: "shards", binding: .count(\.proxy.shards, 0...64),
            help: "Number of event loops. 0 for one per core that the process may use.",
            needsRestart: true),
    ]

    private static let tls: [Setting<CisternSettings>] = [
        Setting(
            path: "tls.certificates", binding: .items(\.tls.certificates),
            help:
                "Certificates for https addresses, each with its key. The server name that the client requests selects one; otherwise the first applies."
        ),
        Setting(
            path: "tls.client_ca", binding: .text(\.tls.clientCA), help: "CA certificates that verify client certificates, as a PEM file."),
        Setting(
            path: "tls.client_verify", binding: .choice(\.tls.clientVerify),
            help:
                "Whether clients are asked for a certificate. An invalid certificate ends the connection, even if certificates are optional."
        ),
        Setting(
            path: "tls.client_identity", binding: .choice(\.proxy.listening.tls.identification),
            help: "The part of a client's certificate that selects its partition: issuer and subject, or the key."),
        Setting(
            path: "tls.send_client_certificate", binding: .flag(\.proxy.listening.tls.sendsCertificate),
            help:
                "Send the client's verified certificate to the upstream in Client-Cert (RFC 9440). Each certificate then has a separate partition."
        ),
        Setting(
            path: "tls.acme_challenges", binding: .text(\.proxy.listening.challengeDirectory),
            help: "Directory served at /.well-known/acme-challenge/, for ACME clients such as certbot and lego. Empty for none."),
    ]

    private static let caching: [Setting<CisternSettings>] = [
        Setting(
            path: "store.directory", binding: .text(\.store.directory),
            help: "Directory of the stored responses. Empty for the user's cache directory.", needsRestart: true),
        Setting(
            path: "store.size", binding: .size(\.store.size, (4 << 20)...(4096 * gibibyte)),
            help: "Limit on the store's files. A disk with less free space gets a smaller store.",
            needsRestart: true),
        Setting(
            path: "store.required", binding: .flag(\.store.required),
            help:
                "Whether Cistern refuses to start if the store cannot be read or written. Otherwise it forwards responses without storing them.",
            needsRestart: true),
        Setting(
            path: "store.confirm_interval", binding: .duration(\.store.confirmInterval, 1_000...hour),
            help:
                "How often the times at which the upstream confirmed stored responses are written, each at most once. After a crash, a stored response appears older by at most this time.",
            needsRestart: true),
        Setting(
            path: "cache.mode", binding: .choice(\.proxy.mode),
            help:
                "Mode at the start. live: by the cache rules. offline: never contacts the upstream. record: always contacts it. replay: serves stored responses at any age."
        ),
        Setting(
            path: "cache.policy", binding: .choice(\.cache.policy),
            help:
                "rescue: stored responses are served while the upstream fails, regardless of their Cache-Control about staleness. strict: RFC 9111 to the letter. rfc9111: as strict, with the other settings of a plain shared cache, for comparisons."
        ),
        Setting(
            path: "cache.store", binding: .choice(\.proxy.policy.keepsAny, [("json", false), ("any", true)]),
            help: "json: 2xx responses with a media type of cache.content_types. any: every response that RFC 9111 permits to store."),
        Setting(
            path: "cache.store_errors", binding: .choice(\.proxy.policy.keepsAnyError, [("safe", false), ("letter", true)]),
            help:
                "With store: any. safe: 400, 401, 429 and other errors caused by one request are never stored. letter: they are stored if they have a lifetime."
        ),
        Setting(
            path: "cache.role", binding: .choice(\.proxy.policy.isPrivate, [("shared", false), ("private", true)]),
            help:
                "shared: each combination of credentials has a separate partition. private: the cache serves a single user (laptop, sidecar, kiosk)."
        ),
        Setting(
            path: "cache.heuristics", binding: .count(\.proxy.policy.heuristicPercent, 0...100),
            help: "Freshness lifetime of responses without one, in percent of the time since Last-Modified, at most a day. 0 for none."),
        Setting(
            path: "cache.targeted_fields", binding: .list(\.proxy.policy.targetedFields),
            help: "Response fields that replace Cache-Control for Cistern (RFC 9213). The first one in the response applies.",
            changes: .names),
        Setting(
            path: "cache.entity_tags", binding: .flag(\.proxy.policy.makesEntityTags),
            help: "Add an ETag, computed from the data, to stored JSON without a validator, so that clients can get 304."),
        Setting(
            path: "cache.json", binding: .choice(\.proxy.policy.reading, [("standard", .otherBytes), ("lenient", .extensions)]),
            help:
                "lenient: also accept JSON with NaN, Infinity or a prefix such as )]}'. It never replaces a stored response with valid JSON (RFC 8259)."
        ),
        Setting(
            path: "cache.set_cookie", binding: .choice(\.proxy.policy.setCookie),
            help:
                "How a response with Set-Cookie is stored. strip: without the cookie. keep: with it, so every client gets it. refuse: not at all."
        ),
        Setting(
            path: "cache.content_types", binding: .list(\.cache.contentTypes),
            help: "Media types of stored responses: type/subtype, +suffix, or * for all.", changes: .mediaTypes),
        Setting(
            path: "cache.credential_fields", binding: .list(\.proxy.policy.credentials.fields),
            help:
                "Request fields that carry credentials. Each combination of their values has a separate partition. A leading * matches any beginning.",
            changes: .names),
        Setting(
            path: "cache.group_credentials", binding: .list(\.proxy.policy.credentials.groupFields),
            help:
                "Credential fields that a group of users shares, such as a tenant. If a request has no others, its private responses are not stored.",
            changes: .names),
        Setting(
            path: "cache.credential_cookies", binding: .list(\.proxy.policy.credentials.cookies),
            help:
                "Cookies that count as credentials, if Cookie is a credential field. A final * matches any rest. With cache.policy: strict, all cookies count.",
            changes: .names),
        Setting(
            path: "cache.ignored_cookies", binding: .list(\.proxy.policy.credentials.ignoredCookies),
            help: "Cookies that are not credentials, because they do not identify users. Responses must not depend on them.",
            changes: .names
        ),
        Setting(
            path: "cache.key_fields", binding: .list(\.proxy.policy.keyFields),
            help: "Request fields that are part of every cache key, for upstreams that use them without naming them in Vary."),
        Setting(
            path: "cache.harmless_fields", binding: .list(\.cache.harmlessFields),
            help: """
                Changes to the list of request fields that make no difference to a response: +name adds a field, -name removes one. Requests \
                that differ in another field share no stored response, unless the upstream sends Vary, public, s-maxage or a lifetime.
                """),
        Setting(
            path: "cache.buffer_limit", binding: .size(\.proxy.content.bufferLimitBytes, 1_024...gibibyte),
            help: "Maximum size of a response that is stored. Larger responses are sent while they arrive, even if a response is stored."),
        Setting(
            path: "cache.hold_limit", binding: .size(\.proxy.content.holdLimitBytes, 0...gibibyte),
            help: """
                Maximum size of a response that is stored and that is received completely before it is sent. Larger responses are sent while \
                they arrive, if no stored response can replace them. 0 holds none.
                """),
        Setting(
            path: "cache.compress", binding: .choice(\.otherRoute.rules.compression),
            help:
                "Compression of stored text that arrived without one. Clients get it compressed only if the response cannot contain secrets (BREACH). always: gzip, even then."
        ),
        Setting(
            path: "cache.rescue_after", binding: .duration(\.otherRoute.rules.rescueAfter, 0...hour),
            help: "Maximum time to wait for a complete good response if a stored response can be served instead. 0 for no limit."),
        Setting(
            path: "cache.rescue_with_shared", binding: .choice(\.otherRoute.rules.sharedRescueMode),
            help:
                "Whether a client with credentials may be rescued with a response that was stored without credentials. public: if the response has public or s-maxage. own: also if it set all of the client's cookies."
        ),
        Setting(
            path: "cache.gone", binding: .choice(\.proxy.remembersGone, [("remember", true), ("ignore", false)]),
            help:
                "remember: while the upstream fails, a 410, a JSON 404 or a user's JSON 403 is served instead of the older stored response."
        ),
        Setting(
            path: "cache.collapse_wait", binding: .duration(\.proxy.collapsing.wait, 0...hour),
            help:
                "Maximum time that a request waits for the response to an identical request. Then it is sent to the upstream too. 0 disables collapsing."
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
            help: "Maximum length of a request target. Longer targets get 414."),
        Setting(
            path: "limits.head", binding: .size(\.proxy.downstream.requestLimits.headBytes, 1_024...65_536),
            help: "Maximum size of a request head. Larger heads get 431."),
        Setting(
            path: "limits.fields", binding: .count(\.proxy.downstream.requestLimits.fieldCount, 10...1_000),
            help: "Maximum number of header fields of a request. Requests with more get 431."),
        Setting(
            path: "limits.content", binding: .size(\.proxy.downstream.contentLimitBytes, 0...(1024 * gibibyte)),
            help: "Maximum length of request content. Longer content gets 413. 0 for no limit."),
        Setting(
            path: "limits.request_buffer", binding: .size(\.proxy.downstream.requestBufferBytes, 0...(64 << 20)),
            help:
                "Request content up to this length is buffered before the request is sent. Longer content is streamed. 0 streams all content."
        ),
        Setting(
            path: "limits.connections", binding: .count(\.proxy.downstream.maximumConnections, 1...1_000_000),
            help:
                "Maximum number of open client connections. At the limit, the address with most connections loses the one that was idle longest."
        ),
        Setting(
            path: "limits.connections_per_address", binding: .count(\.proxy.downstream.connectionsPerAddress, 0...1_000_000),
            help: "Maximum number of open connections of one client address. Further connections are closed at once. 0 for no limit."),
        Setting(
            path: "limits.requests_per_address", binding: .count(\.proxy.access.requestsPerAddress, 0...1_000_000),
            help: "Maximum number of concurrent upstream requests of one client address. Further requests get 429. 0 for no limit."),
        Setting(
            path: "timeouts.handshake", binding: .duration(\.proxy.listening.tls.handshakeTimeout, 100...hour),
            help: "Maximum time from accepting a connection to the end of its TLS handshake."),
        Setting(
            path: "timeouts.head", binding: .duration(\.proxy.downstream.headTimeout, 100...hour),
            help: "Maximum time from a request's first byte to the end of its head."),
        Setting(
            path: "timeouts.keep_alive", binding: .duration(\.proxy.downstream.keepAliveTimeout, 100...hour),
            help: "Maximum time that a client connection stays open without a request."),
        Setting(
            path: "timeouts.content", binding: .duration(\.proxy.downstream.contentTimeout, 100...hour),
            help: "Maximum pause within a request's content."),
        Setting(
            path: "timeouts.content_total", binding: .duration(\.proxy.downstream.contentTotal, 100...hour),
            help: "Maximum time from a request's head to the end of its content, if the content is buffered."),
        Setting(
            path: "timeouts.write", binding: .duration(\.proxy.downstream.writeTimeout, 100...hour),
            help: "Maximum time without progress while a response is sent to a client."),
        Setting(
            path: "timeouts.stream", binding: .duration(\.proxy.upstream.streamTimeout, 0...(24 * hour)),
            help: "Maximum pause within a streamed response. 0 for no limit."),
        Setting(
            path: "timeouts.drain_delay", binding: .duration(\.stopping.drainDelay, 0...hour),
            help:
                "Time before shutdown in which /readyz returns 503 and all requests are still served, so that load balancers redirect clients."
        ),
        Setting(
            path: "timeouts.shutdown", binding: .duration(\.stopping.deadline, 0...hour),
            help: "Maximum time for active responses to finish during shutdown."),
    ]

    private static let forwarding: [Setting<CisternSettings>] = [
        Setting(
            path: "forwarding.name", binding: .text(\.proxy.forwarding.name),
            help: "Name of this deployment in Via, Cache-Status and Proxy-Status."),
        Setting(
            path: "forwarding.forwarded", binding: .choice(\.proxy.forwarding.forwarded),
            help: "Forwarded and X-Forwarded-* sent to the upstream: Cistern's instead of the client's, both, the client's, or none."),
        Setting(
            path: "forwarding.client_field", binding: .choice(\.proxy.access.clientField),
            help: "Field in which trusted_proxies send the client's address. auto: X-Forwarded-For, otherwise Forwarded."),
        Setting(
            path: "forwarding.names", binding: .list(\.servedNames),
            help: "Served host names, such as api.example.com or *.example.com. Requests for other hosts get 421. Empty for any host."),
        Setting(
            path: "forwarding.forward_proxy", binding: .flag(\.proxy.access.isForwardProxy),
            help:
                "Whether clients may use Cistern as their forward proxy (http_proxy) for the served hosts. Absolute URIs of other hosts get 403."
        ),
        Setting(
            path: "forwarding.forward_host", binding: .flag(\.proxy.forwarding.forwardHost),
            help: "Send the client's Host to the upstream in Forwarded and X-Forwarded-Host. The host is then part of the cache key."),
        Setting(path: "forwarding.via", binding: .flag(\.proxy.forwarding.via), help: "Whether Via is added to requests and responses."),
        Setting(
            path: "forwarding.stale_field", binding: .flag(\.proxy.forwarding.staleField),
            help: "Whether Cistern-Stale is added to stale and rescued responses: seconds since the upstream confirmed them, and why."),
        Setting(
            path: "forwarding.preserve_host", binding: .flag(\.proxy.forwarding.preserveHost),
            help: "Send the client's Host to the upstream. The host is then part of the cache key."),
        Setting(
            path: "forwarding.rewrite_location", binding: .flag(\.proxy.forwarding.rewriteLocation),
            help:
                "Make references to the upstream in Location, Content-Location and Link relative, so that clients continue to use Cistern."),
        Setting(
            path: "forwarding.override_fields", binding: .list(\.proxy.forwarding.overrideFields),
            help:
                "Request fields that are removed because they could change the upstream's route, host or method. X-Forwarded-* are removed too. X-HTTP-Method-Override, X-HTTP-Method and X-Method-Override remain in unsafe requests, unless their responses are stored. Empty for none.",
            changes: .names),
        Setting(
            path: "forwarding.address_fields", binding: .list(\.proxy.forwarding.addressFields),
            help:
                "Request fields, besides X-Forwarded-For, that contain a client's address. They are removed, unless forwarding.forwarded is trust.",
            changes: .names
        ),
        Setting(
            path: "forwarding.identity_fields", binding: .list(\.proxy.forwarding.identityFields),
            help:
                "Request fields in which proxies name the user; a final * matches any rest. They are removed, unless forwarding.forwarded is trust or a trusted proxy sent them.",
            changes: .names),
    ]

    private static let logging: [Setting<CisternSettings>] = [
        Setting(
            path: "log.level", binding: .choice(\.log.level),
            help: "Minimum level of messages on standard error."),
        Setting(path: "log.format", binding: .choice(\.log.format), help: "Format of messages on standard error."),
        Setting(
            path: "log.requests", binding: .flag(\.log.requests),
            help:
                "Whether each request is shown as a line if standard error is a terminal, without the values of arguments. At most 500 lines per second."
        ),
        Setting(
            path: "log.access", binding: .text(\.log.access),
            help: "The access log: off, stdout, or a file. Reopened on SIGHUP and SIGUSR1."),
        Setting(
            path: "log.access_format", binding: .choice(\.log.accessFormat),
            help: "Format of the access log, with one line per request."),
        Setting(
            path: "log.access_fields", binding: .list(\.log.accessFields),
            help:
                "Fields of JSON lines, in this order. Also available: query (without secrets, in every format), user_agent, referer, shared and upstream_phases.",
            changes: .names),
        Setting(
            path: "log.request_id", binding: .choice(\.proxy.forwarding.requestID),
            help:
                "Whether X-Request-Id is sent to the upstream, returned to the client, or both. Cistern generates an ID if the client sends none."
        ),
    ]

    private static let tracing: [Setting<CisternSettings>] = [
        Setting(
            path: "tracing.endpoint", binding: .text(\.proxy.tracing.endpoint),
            help:
                "URL for spans (OTLP over HTTP in JSON), such as http://127.0.0.1:4318. The default path is /v1/traces. Empty disables tracing."
        ),
        Setting(
            path: "tracing.sample", binding: .share(\.proxy.tracing.samplePerMillion),
            help: "Fraction of requests that are traced, from 0 to 1. A traceparent in the request takes precedence."),
        Setting(
            path: "tracing.limit", binding: .count(\.proxy.tracing.limit, 1...100_000),
            help: "Maximum number of traced requests per second, including requests with a sampled traceparent."),
        Setting(
            path: "tracing.service_name", binding: .text(\.proxy.tracing.serviceName),
            help: "Attribute service.name of the spans."),
    ]
}

// The table of all settings: the one place that says how each is spelt, what it may be and what it means. The YAML file, the environment
// and the command line are read by it, and the documentation is held against it.

package struct Setting: Sendable {
    /// What kind of value it takes, and where in `CisternSettings` it goes. `@unchecked Sendable` because key paths hold no state here,
    /// and the standard library does not say so.
    package enum Binding: @unchecked Sendable {
        case text(WritableKeyPath<CisternSettings, String>)
        case choice(WritableKeyPath<CisternSettings, String>, [String])
        case list(WritableKeyPath<CisternSettings, [String]>)
        case flag(WritableKeyPath<CisternSettings, Bool>)
        case count(WritableKeyPath<CisternSettings, Int>, ClosedRange<Int>)
        case size(WritableKeyPath<CisternSettings, Int>, ClosedRange<Int>)
        case duration(WritableKeyPath<CisternSettings, Int>, ClosedRange<Int>)
    }

    /// Where it stands in the file: names joined by dots.
    package let path: String
    package let binding: Binding
    package let help: String

    /// `CISTERN_` and the path in capitals, dots as underscores.
    package var environment: String { "CISTERN_" + path.uppercased().split(separator: ".").joined(separator: "_") }
}

package enum SettingsTable {
    private static let hour = 3_600_000
    private static let gibibyte = 1 << 30

    package static let all: [Setting] = upstream + listening + caching + limits + forwarding + logging

    private static let upstream: [Setting] = [
        Setting(
            path: "upstream.url", binding: .text(\.upstream.url), help: "The API's base URL: http or https, with a path where it has one."),
        Setting(path: "upstream.unix_socket", binding: .text(\.upstream.unixSocket), help: "Ask through this Unix socket instead of TCP."),
        Setting(
            path: "upstream.http2", binding: .choice(\.upstream.http2, ["auto", "off", "prior-knowledge"]),
            help: "HTTP/2 to the upstream: where TLS negotiates it, never, or always."),
        Setting(path: "upstream.proxy", binding: .text(\.upstream.proxy), help: "A forward proxy on the way to the upstream."),
        Setting(path: "upstream.ca_file", binding: .text(\.upstream.caFile), help: "Certificates that the upstream's is checked against."),
        Setting(path: "upstream.client_certificate", binding: .text(\.upstream.clientCertificate), help: "Our certificate, as a PEM file."),
        Setting(path: "upstream.client_key", binding: .text(\.upstream.clientKey), help: "The key of our certificate, as a PEM file."),
        Setting(path: "upstream.verify", binding: .flag(\.upstream.verify), help: "Check the upstream's certificate. Leave it on."),
        Setting(
            path: "upstream.connect_timeout", binding: .duration(\.upstream.connectTimeout, 1...hour),
            help: "Resolving, connecting and TLS together."),
        Setting(
            path: "upstream.first_byte_timeout", binding: .duration(\.upstream.firstByteTimeout, 1...hour),
            help: "From the request sent to the first byte of the answer."),
        Setting(
            path: "upstream.between_bytes_timeout", binding: .duration(\.upstream.betweenBytesTimeout, 1...hour),
            help: "Longest pause within an answer."),
        Setting(
            path: "upstream.total_timeout", binding: .duration(\.upstream.totalTimeout, 0...hour),
            help: "A whole exchange with the upstream; 0 for no limit."),
        Setting(
            path: "upstream.connections", binding: .count(\.upstream.connections, 1...10_000),
            help: "Connections to the upstream of each shard; more requests wait for one."),
    ]

    private static let listening: [Setting] = [
        Setting(path: "listen", binding: .list(\.listen), help: "Addresses: HOST:PORT, [IPV6]:PORT, :PORT, unix:/path."),
        Setting(
            path: "admin_listen", binding: .list(\.adminListen),
            help: "Addresses for /metrics, /healthz and /readyz; without one they are on the proxy's own."),
        Setting(
            path: "own_pages", binding: .flag(\.ownPages), help: "Answer /metrics, /healthz and /readyz on the proxy's own addresses."),
        Setting(path: "shards", binding: .count(\.shards, 0...64), help: "Event loops; 0 for one a core."),
    ]

    private static let caching: [Setting] = [
        Setting(
            path: "store.directory", binding: .text(\.store.directory),
            help: "Where answers are kept; empty for the user's cache directory."),
        Setting(path: "store.size", binding: .size(\.store.size, (4 << 20)...(4096 * gibibyte)), help: "Exact limit on the store's files."),
        Setting(
            path: "cache.policy", binding: .choice(\.cache.policy, ["rescue", "strict"]),
            help:
                "rescue: stored answers go out while the upstream fails, whatever they said about staleness. strict: RFC 9111 to the letter."
        ),
        Setting(
            path: "cache.content_types", binding: .list(\.cache.contentTypes),
            help: "Media types that are kept: type/subtype, +suffix, or * for all."),
        Setting(
            path: "cache.credential_fields", binding: .list(\.cache.credentialFields),
            help: "Request fields that carry credentials: each combination of their values has a partition of its own."),
        Setting(
            path: "cache.key_fields", binding: .list(\.cache.keyFields),
            help: "Request fields that are part of every key, for upstreams that react to them without saying so in Vary."),
        Setting(
            path: "cache.buffer_limit", binding: .size(\.cache.bufferLimit, 1_024...gibibyte),
            help: "Longest answer that is taken whole before it goes out, and so the largest that is kept."),
    ]

    private static let limits: [Setting] = [
        Setting(path: "limits.target", binding: .size(\.limits.target, 256...16_384), help: "Longest request target; beyond it 414."),
        Setting(path: "limits.head", binding: .size(\.limits.head, 1_024...65_536), help: "Largest request head; beyond it 431."),
        Setting(
            path: "limits.fields", binding: .count(\.limits.fields, 10...1_000), help: "Most header fields of a request; beyond it 431."),
        Setting(
            path: "limits.content", binding: .size(\.limits.content, 0...(1024 * gibibyte)),
            help: "Longest request content; beyond it 413. 0 for no limit."),
        Setting(
            path: "limits.connections", binding: .count(\.limits.connections, 1...1_000_000),
            help: "Open client connections in all; more wait in the kernel."),
        Setting(
            path: "limits.requests_per_connection", binding: .count(\.limits.requestsPerConnection, 0...1_000_000_000),
            help: "Requests answered on one connection before it is closed; 0 for no limit."),
        Setting(
            path: "timeouts.head", binding: .duration(\.timeouts.head, 100...hour),
            help: "From a request's first byte to the end of its head."),
        Setting(
            path: "timeouts.keep_alive", binding: .duration(\.timeouts.keepAlive, 100...hour), help: "How long an idle connection is kept."),
        Setting(
            path: "timeouts.content", binding: .duration(\.timeouts.content, 100...hour), help: "Longest pause within a request's content."),
        Setting(
            path: "timeouts.write", binding: .duration(\.timeouts.write, 100...hour),
            help: "Longest time without progress while a client takes its answer."),
        Setting(
            path: "timeouts.shutdown", binding: .duration(\.timeouts.shutdown, 0...hour),
            help: "How long running answers may take to finish at the end."),
    ]

    private static let forwarding: [Setting] = [
        Setting(
            path: "forwarding.name", binding: .text(\.forwarding.name),
            help: "This deployment's name in Via, Cache-Status and Proxy-Status."),
        Setting(
            path: "forwarding.forwarded", binding: .choice(\.forwarding.forwarded, ["replace", "add", "trust", "off"]),
            help: "Forwarded and X-Forwarded-*: ours instead of the client's, both, the client's, or none."),
        Setting(
            path: "forwarding.forward_host", binding: .flag(\.forwarding.forwardHost),
            help: "Tell the upstream the client's Host; the host is part of the key then."),
        Setting(path: "forwarding.via", binding: .flag(\.forwarding.via), help: "Add Via to requests and answers."),
        Setting(
            path: "forwarding.preserve_host", binding: .flag(\.forwarding.preserveHost),
            help: "Send the client's Host to the upstream; the host is part of the key then."),
        Setting(
            path: "forwarding.rewrite_location", binding: .flag(\.forwarding.rewriteLocation),
            help: "Make redirects within the upstream relative, so that clients stay here."),
        Setting(
            path: "forwarding.drop_overrides", binding: .flag(\.forwarding.dropOverrides),
            help: "Drop fields that re-route or override (X-HTTP-Method-Override, X-Original-URL, …)."),
    ]

    private static let logging: [Setting] = [
        Setting(
            path: "log.level", binding: .choice(\.log.level, ["trace", "debug", "info", "notice", "warning", "error", "critical"]),
            help: "What the program says, on standard error."),
        Setting(path: "log.format", binding: .choice(\.log.format, ["text", "json"]), help: "How it says it."),
        Setting(path: "log.access", binding: .text(\.log.access), help: "The access log: off, stdout, or a file. Reopened on SIGHUP."),
        Setting(
            path: "log.access_format", binding: .choice(\.log.accessFormat, ["json", "common"]), help: "One line a request, in either form."
        ),
    ]
}

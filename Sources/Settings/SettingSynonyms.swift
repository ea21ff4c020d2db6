// Names of settings in nginx, Varnish, Squid, Caddy, HAProxy, Envoy and Traefik, and other common names, with the corresponding settings of
// Cistern.

enum SettingSynonyms {
    struct Synonym {
        /// Path of a setting, a list of paths, or a command; nil if nothing corresponds to the name.
        let target: String?
        /// How the setting of Cistern differs, as a clause; empty if it does not.
        let note: String
    }

    /// Synonyms by name. A name with different meanings in several groups includes its group.
    static let all: [String: Synonym] = {
        var all: [String: Synonym] = [:]
        for row in upstream + listening + caching + storing + limiting + logging + lists + absent {
            for name in row.names.split(separator: " ") {
                precondition(all[String(name)] == nil, "\(name) stands for two settings")
                all[String(name)] = Synonym(target: row.target, note: row.note)
            }
        }
        return all
    }()

    private struct Row {
        /// Names, separated by spaces.
        let names: String
        let target: String?
        let note: String

        init(_ names: String, _ target: String?, _ note: String = "") { (self.names, self.target, self.note) = (names, target, note) }
    }

    private static let upstream: [Row] = [
        Row(
            """
            target backend backend_url origin origin_url upstream_url proxy_pass reverse_proxy proxy_to destination remote base_url api_url url uri \
            endpoint proxy upstream.host upstream.hostname upstream.address upstream.addr upstream.port upstream.scheme upstream.path \
            upstream.target upstream.backend upstream.origin upstream.uri upstream.base_url upstream.endpoint
            """, "upstream.url", "the API's base URL with scheme, host and port, such as https://api.example.com:8443/v1"),
        Row("upstream.socket upstream.unix", "upstream.unix_socket"),
        Row("http_proxy https_proxy proxy_url forward_proxy_url", "upstream.proxy"),
        Row("set_header request_headers proxy_set_header custom_headers upstream.headers", "upstream.fields.set"),
        Row("routes.headers routes.set_headers routes.request_headers", "routes.fields.set"),
        Row("proxy_hide_header remove_headers upstream.remove_headers", "upstream.fields.remove"),
        Row(
            "timeout timeouts.upstream timeouts.read timeouts.backend timeouts.response read_timeout response_timeout request_timeout "
                + "response_header_timeout proxy_read_timeout timeouts.request timeouts.first_byte", "upstream.first_byte_timeout",
            "the maximum time to the first byte; upstream.between_bytes_timeout limits later pauses, upstream.total_timeout the exchange"),
        Row("total timeout_total max_duration timeouts.total deadline", "upstream.total_timeout"),
        Row("proxy_connect_timeout dial_timeout connection_timeout timeouts.connect timeout_connect", "upstream.connect_timeout"),
        Row(
            "upstream.max_connections upstream.max_conns upstream.pool_size upstream.pool upstream.keepalive pool_size",
            "upstream.connections"),
        Row(
            "retries max_retries num_retries retry_on retry_policy proxy_next_upstream attempts", "upstream.retry_budget",
            "in percent of all requests; 0 for none. Safe requests without a byte of a response are retried once"),
        Row(
            "insecure insecure_skip_verify skip_verify ssl_verify tls_verify verify_ssl verify_tls proxy_ssl_verify upstream.insecure "
                + "upstream.skip_verify upstream.ssl_verify upstream.tls_verify", "upstream.verify",
            "false disables the verification of the upstream's certificate"),
        Row(
            "ca ca_cert ca_bundle cacert ca_certificate ca_certificates trusted_ca proxy_ssl_trusted_certificate upstream.ca upstream.ca_cert",
            "upstream.ca_file"),
        Row("client_cert proxy_ssl_certificate upstream.cert upstream.certificate upstream.client_cert", "upstream.client_certificate"),
        Row("proxy_ssl_certificate_key upstream.key upstream.private_key", "upstream.client_key"),
        Row(
            "dns resolver resolve dns_ttl dns_refresh_rate dns_interval", nil, "names are resolved again every 30 s"
        ),
        Row("proxy_http_version http_version upstream.protocol upstream.h2 upstream.http_version", "upstream.http2"),
        Row("max_fails fails circuit_breaker outlier_detection breaker failures", "failure.threshold"),
        Row(
            "health_check healthcheck health_checks health_uri health_path health probe ping upstream.health_check upstream.health_path",
            "failure.probe", "as in GET /health 200 every 10s"),
        Row(
            "health_interval check_interval health_check_interval interval health_status expect_status", "failure.probe",
            "as in GET /health 200 every 10s"),
    ]

    private static let listening: [Row] = [
        Row(
            "port ports host hostname bind address addresses addr listener listeners listen_address listen_addr interface entrypoints entry_points "
                + "server_port http_port https_port https listen_port", "listen",
            "HOST:PORT, or :PORT for all addresses; https:// before it for TLS"),
        Row("server_name server_names domain domains hostnames hosts virtual_host vhost", "forwarding.names"),
        Row(
            "admin_port admin_address admin_bind admin.listen admin.port admin.address admin.bind metrics metrics_port metrics_listen "
                + "metrics_address prometheus status_port", "admin_listen", "HOST:PORT, with /metrics, health pages and the admin interface"
        ),
        Row("admin.token admin.password admin.auth admin_token token password", "admin.token_file", "a file that holds the token"),
        Row("real_ip set_real_ip_from trust_proxy trusted_proxy trusted_networks trusted_ips trusted", "trusted_proxies"),
        Row("real_ip_header client_ip_header forwarded_header", "forwarding.client_field"),
        Row("whitelist allowlist ip_whitelist ip_allowlist acl allowed_ips", "access.allow"),
        Row("blacklist denylist blocklist ip_blacklist ip_blocklist blocked_ips", "access.deny"),
        Row(
            "ssl cert certs certificate certificates cert_file certfile ssl_cert ssl_certificate tls_cert tls_certificate tls.cert "
                + "tls.certificate tls.cert_file", "tls.certificates",
            "FILE or FILE:KEYFILE, for an entry of listen with https:// before it"),
        Row(
            "key keyfile key_file private_key ssl_key ssl_certificate_key tls_key tls.key tls.key_file tls.private_key", "tls.certificates",
            "FILE:KEYFILE, or one file that holds both"),
        Row("ssl_client_certificate client_ca_file mtls tls.ca tls.ca_file", "tls.client_ca"),
        Row("ssl_verify_client client_auth tls.client_auth", "tls.client_verify"),
        Row("acme letsencrypt auto_https", "tls.acme_challenges", "the directory into which an ACME client writes its challenges"),
        Row("preserve_host_header pass_host_header host_header upstream.host_header upstream.preserve_host", "forwarding.preserve_host"),
        Row("cors.headers cors.allow_headers cors.allowed_headers", "cors.fields"),
        Row("cors.allow_methods cors.allowed_methods", "cors.methods"),
        Row("cors.allow_credentials", "cors.credentials"),
        Row("cors_origins allowed_origins allow_origin allow_origins access_control_allow_origin cors.allow_origin", "cors.origins"),
    ]

    private static let caching: [Row] = [
        Row(
            "ttl max_age maxage s_maxage default_ttl default_max_age expire expires expiration expiry lifetime cache_ttl cache_time cache_for valid "
                + "proxy_cache_valid freshness_lifetime age beresp_ttl", "cache.freshness.default",
            "for responses without a lifetime; cache.freshness.minimum and cache.freshness.maximum limit the lifetime of others"),
        Row("min_ttl minttl minimum_ttl force_ttl override_ttl", "cache.freshness.minimum"),
        Row("max_ttl maxttl maximum_ttl", "cache.freshness.maximum"),
        Row("negative_ttl error_ttl negative_cache cache_errors", "cache.negative"),
        Row(
            "exclude excludes exclude_paths excluded_paths bypass cache_bypass proxy_cache_bypass no_cache nocache proxy_no_cache no_store skip skip_cache "
                + "skip_paths ignore_paths pass dont_cache never_cache disable disabled enabled cache_enabled cacheable routes.caching cache.off",
            "routes.cache", "off on a route: its requests are forwarded, and nothing is stored"),
        Row("routes.store", "cache.store", "json or any; a route with cache: off stores nothing"),
        Row(
            "ignore_headers proxy_ignore_headers ignore_cache_control override_cache_control ignore_no_store ignore_no_cache ignore_private "
                + "ignore_directives cache_private cache.private ignore cache.ignore", "cache.freshness.ignore",
            "the response directives to ignore, such as no-store"),
        Row("methods cache_methods cache.methods proxy_cache_methods", "routes.methods", "methods that only read on a route, such as POST"),
        Row(
            "cache_key proxy_cache_key cache.key vary vary_by cache_vary key_headers", "cache.key_fields",
            "request fields that Vary names are always part of the key"),
        Row(
            "ignore_query query query_string query_params params strip_query ignore_params ignore_query_params",
            "routes.arguments.ignore"),
        Row("cookies cookie ignore_cookies strip_cookies", "cache.ignored_cookies"),
        Row(
            "stale stale_if_error use_stale proxy_cache_use_stale grace default_grace max_stale inactive serve_stale", "cache.stale_for",
            "how long a stale response may be served while the upstream fails; 0 for no limit"),
        Row("swr stale_while_revalidate_for background_update proxy_cache_background_update", "cache.stale_while_revalidate"),
        Row(
            "lock cache_lock proxy_cache_lock coalesce coalescing request_coalescing single_flight singleflight", "cache.collapse_wait",
            "maximum time to wait for another request; 0 disables collapsing"),
        Row("lock_timeout cache_lock_timeout proxy_cache_lock_timeout", "cache.collapse_wait"),
        Row("statuses status_codes cache_statuses cacheable_statuses codes", "cache.store", "any: also statuses other than 2xx"),
        Row("types mime_types content_type media_types gzip_types", "cache.content_types"),
        Row("gzip brotli zstd compression encode encoding", "cache.compress", "off, gzip, zstd, br or always"),
        Row("gzip_min_length min_compress_size", nil, "content from 1,400 bytes on is compressed"),
        Row("etag etags", "cache.entity_tags"),
        Row("prefetch refresh background_refresh", "cache.refresh_ahead"),
        Row("offline maintenance cache.offline", "cache.mode", "live, offline, record or replay"),
        Row("strict rfc cache.strict", "cache.policy", "rescue or strict"),
        Row("private_cache shared_cache cache.shared", "cache.role", "shared or private"),
        Row("jwt jwks jwks_url jwks_uri oidc", "credentials.identity.jwt.keys"),
        Row("warm warmup preload", "cistern warm", "it is a command"),
        Row("purge invalidate invalidation ban flush", "cistern purge", "it is a command"),
    ]

    private static let storing: [Row] = [
        Row(
            "cache_dir cache_directory cache_path cache.dir cache.directory cache.path cache.location proxy_cache_path storage storage_path "
                + "storage_dir data_dir dir directory path folder store.path store.dir store.location", "store.directory"),
        Row(
            "cache_size max_size cache.max_size cache.limit disk_size capacity storage_size quota maxsize store.max_size store.limit "
                + "store.capacity size_limit", "store.size"),
        Row(
            "memory max_memory memory_limit memory_size mem_size cache_mem maxmemory ram cache.memory store.memory", "store.size",
            "responses are stored in files, which the system keeps in memory"),
        Row(
            "max_object_size maximum_object_size max_item_size max_file_size max_response_size response_limit proxy_buffer_size proxy_buffers "
                + "buffer_size buffer", "cache.buffer_limit", "the largest response that is stored"),
        Row(
            "redis redis_url valkey memcached cluster nodes peers redis.url redis.host redis.address redis.addr redis.servers redis.server "
                + "redis.port share.redis share.url share.host share.port share.address share.nodes share.server share.endpoint",
            "share.servers", "redis://HOST:PORT, or rediss:// with TLS"),
        Row("redis.password redis_password share.password", "share.password_file", "a file that holds the password"),
        Row("share.ttl", "share.keep"),
        Row("redis.user redis.username share.username", "share.user"),
        Row("cluster_name fleet_name share.name", "share.fleet"),
        Row("secret secret_key shared_secret share.secret share.key", "share.secret_file", "a file that holds the secret"),
    ]

    private static let limiting: [Row] = [
        Row(
            "rate_limit rate_limiting ratelimit limit_req limit_conn throttle throttling rps requests_per_second rate",
            "limits.requests_per_address",
            "the number of concurrent requests of one client address, not a rate"),
        Row("max_connections max_conns maxconn worker_connections connection_limit", "limits.connections"),
        Row(
            "max_body_size client_max_body_size body_limit max_body max_request_size max_request_body request_body_limit body_size",
            "limits.content"),
        Row("client_body_buffer_size request_buffer_size", "limits.request_buffer"),
        Row("max_header_size max_header_bytes header_limit large_client_header_buffers client_header_buffer_size", "limits.head"),
        Row("max_headers header_count", "limits.fields"),
        Row("max_url_length max_uri_length url_limit", "limits.target"),
        Row("keepalive keepalive_timeout keep_alive_timeout idle_timeout timeouts.idle timeouts.keepalive", "timeouts.keep_alive"),
        Row("client_header_timeout read_header_timeout header_timeout timeouts.header", "timeouts.head"),
        Row("client_body_timeout body_timeout timeouts.body", "timeouts.content"),
        Row("send_timeout write_timeout proxy_send_timeout timeouts.send", "timeouts.write", "for responses to clients"),
        Row("drain drain_timeout", "timeouts.drain_delay"),
        Row("shutdown_timeout graceful_shutdown graceful_timeout grace_period terminate_timeout", "timeouts.shutdown"),
        Row("keepalive_requests max_requests", nil, "a connection carries any number of requests"),
        Row("max_concurrent_streams http2_max_concurrent_streams", nil, "an HTTP/2 connection carries 100 concurrent requests"),
        Row("workers threads worker_processes worker_threads num_workers nbproc nbthread cpus cores concurrency processes", "shards"),
    ]

    private static let logging: [Row] = [
        Row("log_level loglevel logging logs verbosity verbose debug level log.verbosity log.loglevel", "log.level"),
        Row("access_log accesslog access_logs log.access_log", "log.access", "off, stdout or a file"),
        Row(
            "error_log log_file logfile log_path log.file log.output log.path log.destination", "log.level",
            "messages go to standard error; log.access names the file of the access log"),
        Row("trace opentelemetry otel otlp jaeger zipkin tracing.url tracing.address tracing.host tracing.collector", "tracing.endpoint"),
        Row("sampling sample_rate sampling_rate tracing.rate tracing.ratio", "tracing.sample"),
        Row("request_id_header correlation_id x_request_id", "log.request_id"),
    ]

    private static let lists: [Row] = [
        Row(
            "server servers upstreams backends origins targets services sites vhosts virtual_hosts clusters frontends upstream.servers upstream.server "
                + "upstream.backends upstream.urls upstream.nodes load_balancing load_balancer lb lb_policy balance", "apis.upstream",
            "a list of APIs, each with one or more base URLs; upstream.url is for a single one, and listen for Cistern's own address"),
        Row("route location locations rules paths path_rules matchers handle handlers", "routes", "a list, each with a name and a path"),
        Row(
            "routes.pattern routes.match routes.matcher routes.prefix routes.location routes.uri routes.url routes.paths routes.glob routes.regex",
            "routes.path", "* matches one segment, a final ** any rest"),
        Row(
            "routes.upstream routes.backend routes.target routes.proxy_pass routes.origin", "apis.upstream",
            "all routes of an API use its upstream; for another upstream, add an entry with a path to apis"),
        Row(
            "apis.url apis.uri apis.base_url apis.backend apis.target apis.origin apis.server apis.servers apis.address apis.upstreams",
            "apis.upstream"),
        Row("apis.hosts apis.domain apis.domains apis.server_name apis.hostname", "apis.host"),
        Row("apis.prefix apis.base_path apis.path_prefix apis.location apis.paths", "apis.path"),
        Row("apis.strip_prefix apis.rewrite", "apis.strip_path"),
        Row("api", "apis", "a list; upstream.url is for a single API"),
    ]

    private static let absent: [Row] = [
        Row(
            "headers header add_header response_headers", nil,
            "fields of responses cannot be set; upstream.fields.set sets fields of requests"),
        Row("rewrite redirect redirects url_rewrite", nil, "paths are forwarded unchanged; apis.strip_path removes a prefix"),
        Row("user username group run_as", nil, "start Cistern as that user, by User= of systemd or USER of the container"),
        Row("pid pid_file pidfile daemon daemonize background", nil, "the service manager is responsible for it"),
        Row(
            "auth basic_auth auth_basic authentication", nil,
            "the upstream checks credentials; access.allow and tls.client_verify restrict clients"),
        Row("include includes import imports", nil, "all settings are in one file, in CISTERN_ variables and on the command line"),
        Row("version config_version", nil, "remove the line"),
        Row(
            "ssl_protocols ssl_ciphers ciphers tls_min_version min_tls_version", nil,
            "TLS 1.2 and 1.3 are used, and their ciphers cannot be changed"),
    ]

    /// Suggested setting for a value that was given to a group.
    static let ofGroup = [
        "upstream": "upstream.url", "store": "store.directory", "log": "log.level", "admin": "admin.socket", "access": "access.allow",
        "share": "share.servers", "tracing": "tracing.endpoint", "tls": "tls.certificates", "cors": "cors.origins", "cache": "cache.mode",
        "cache.freshness": "cache.freshness.default", "forwarding": "forwarding.names", "failure": "failure.threshold",
        "timeouts": "upstream.first_byte_timeout", "limits": "limits.connections",
        "freshness": "freshness.default",
        "good": "good.must_have", "keep_if": "keep_if.must_have", "arguments": "arguments.ignore",
    ]
}

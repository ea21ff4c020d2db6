// Request fields that are known to select no account, and no representation beyond what Vary lists. Requests that differ in any other field
// may get different responses. Add a name only if its documentation states its purpose.

extension WellKnownNames {
    /// Names in lower case, matched exactly. Names with the prefix `sec-` are harmless too, because only browsers can set them (Fetch
    /// §2.2.2).
    public static let harmlessFields: [String] =
        protocolFields + tracingFields + networkFields + clientFields

    /// Fields of RFC 9110, 9111, 9112, 9113 and 9218, of Fetch, and client hints.
    private static let protocolFields = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "access-control-request-headers",
        "access-control-request-local-network", "access-control-request-method", "access-control-request-private-network", "age",
        "alt-used",
        "cache-control", "cdn-loop", "connection", "content-length", "content-type", "cookie", "cookie2", "date", "device-memory", "dnt",
        "downlink", "dpr", "early-data", "ect", "expect", "expires", "host", "http2-settings", "idempotency-key", "if-match",
        "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "max-forwards", "origin", "pragma",
        "priority", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization", "proxy-connection", "purpose", "range",
        "referer", "rtt", "save-data", "service-worker", "service-worker-navigation-preload", "te", "trailer", "transfer-encoding",
        "upgrade", "upgrade-insecure-requests", "user-agent", "via", "viewport-width", "want-content-digest", "want-digest",
        "want-repr-digest", "warning", "width", "x-idempotency-key", "x-moz", "x-purpose",
        "cistern-key", "cistern-mode", "cistern-why",
    ]

    /// Request IDs, and trace context that services propagate.
    private static let tracingFields = [
        // W3C, Zipkin, Jaeger, OpenTracing.
        "traceparent", "tracestate", "baggage", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags",
        "uber-trace-id", "jaeger-debug-id", "jaeger-baggage", "ot-tracer-traceid", "ot-tracer-spanid", "ot-tracer-sampled",
        "x-ot-span-context", "grpc-trace-bin",
        // Identifiers of requests.
        "x-request-id", "request-id", "x-requestid", "x-correlation-id", "x-correlationid", "correlation-id", "x-trace-id", "trace-id",
        "x-span-id", "x-transaction-id", "x-client-transaction-id", "x-client-request-id", "client-request-id", "x-client-trace-id",
        "x-unique-id", "x-amzn-trace-id", "x-amzn-requestid", "x-amz-cf-id", "x-opaque-id", "x-vcap-request-id", "x-parse-request-id",
        "paypal-request-id", "x-global-transaction-id", "opc-request-id", "ecid-context", "x-oracle-dms-ecid", "x-oracle-dms-rid",
        "sap-passport", "x-arequestid", "atl-traceid", "x-cloud-trace-context", "x-goog-request-id", "x-tyk-trace-id",
        // Agents.
        "sentry-trace", "x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-sampling-priority", "x-datadog-sampled",
        "x-datadog-origin", "x-datadog-tags", "newrelic", "x-newrelic-id", "x-newrelic-transaction", "x-newrelic-synthetics",
        "x-newrelic-synthetics-info", "x-instana-t", "x-instana-s", "x-instana-l", "x-instana-synthetic", "x-dynatrace",
        "x-dynatrace-test", "x-dtc", "x-dtpc", "x-dtreferer", "x-ruxit-forwarded-for", "adrum", "adrum_0", "adrum_1", "singularityheader",
        "elastic-apm-traceparent", "x-honeycomb-trace", "sw6", "sw8", "sw8-correlation", "sw8-x", "pinpoint-traceid", "pinpoint-spanid",
        "pinpoint-pspanid", "pinpoint-sampled", "pinpoint-flags", "pinpoint-pappname", "pinpoint-papptype", "pinpoint-host",
        "l5d-ctx-trace", "l5d-reqid", "request-context", "x-ms-request-id", "x-ms-request-root-id", "x-ms-client-request-id",
        "x-ms-return-client-request-id", "return-client-request-id", "bugsnag-sent-at", "bugsnag-payload-version",
    ]

    /// Fields that proxies and CDNs add, and fields that contain no more than the client's address and User-Agent.
    private static let networkFields =
        addressFields + locationFields + [
            "forwarded", "x-forwarded-for", "x-real-ip", "cf-ray", "cf-visitor", "cf-request-id", "cf-connecting-o2o", "cf-ew-via",
            "cf-worker", "cf-edge-cache", "fastly-ff", "fastly-ssl", "fastly-client", "fastly-orig-accept-encoding",
            "fastly-temp-xff", "x-timer", "x-varnish", "akamai-origin-hop", "x-akamai-config-log-detail", "x-akamai-request-id",
            "cloudfront-viewer-address", "cloudfront-viewer-asn", "cloudfront-viewer-http-version", "cloudfront-viewer-tls",
            "cloudfront-viewer-header-order", "cloudfront-viewer-header-count", "cloudfront-viewer-ja3-fingerprint",
            "cloudfront-viewer-ja4-fingerprint", "cloudfront-forwarded-proto", "x-vercel-id", "x-vercel-ip-as-number",
            "x-vercel-ja4-digest", "fly-request-id", "fly-traceparent", "fly-tracestate", "rndr-id", "x-request-start",
            "x-queue-start", "connect-time", "total-route-time", "x-azure-ref", "x-azure-requestchain", "x-fd-healthprobe",
            "x-appgw-trace-id", "x-arr-log-id", "x-amzn-tls-version", "x-amzn-tls-cipher-suite", "x-nf-request-id",
            "x-envoy-attempt-count", "x-envoy-expected-rq-timeout-ms", "x-envoy-decorator-operation", "x-envoy-internal",
            "x-envoy-peer-metadata", "x-envoy-peer-metadata-id", "x-appengine-request-log-id", "x-appengine-timeout-ms",
        ]

    /// Fields in which CDNs name the place and the device of a client, a locale, and whether a script sent the request. Servers may select a
    /// representation by them, as by Accept-Language, and any client can send them. They have few values, unlike User-Agent and Referer, so
    /// most requests have equal ones.
    public static let locationFields = [
        "cf-ipcountry", "cf-ipcontinent", "cf-ipcity", "cf-iplatitude", "cf-iplongitude", "cf-region", "cf-region-code",
        "cf-metro-code", "cf-postal-code", "cf-timezone", "x-akamai-edgescape", "cloudfront-viewer-country",
        "cloudfront-viewer-country-name", "cloudfront-viewer-country-region", "cloudfront-viewer-country-region-name",
        "cloudfront-viewer-city", "cloudfront-viewer-latitude", "cloudfront-viewer-longitude", "cloudfront-viewer-postal-code",
        "cloudfront-viewer-metro-code", "cloudfront-viewer-time-zone", "cloudfront-is-mobile-viewer", "cloudfront-is-tablet-viewer",
        "cloudfront-is-smarttv-viewer", "cloudfront-is-desktop-viewer", "cloudfront-is-android-viewer", "cloudfront-is-ios-viewer",
        "x-vercel-ip-country", "x-vercel-ip-country-region", "x-vercel-ip-city", "x-vercel-ip-continent", "x-vercel-ip-latitude",
        "x-vercel-ip-longitude", "x-vercel-ip-postal-code", "x-vercel-ip-timezone", "fly-region", "x-sucuri-country",
        "x-appengine-country", "x-appengine-region", "x-appengine-city", "x-appengine-citylatlong", "x-client-geo-location",
        "x-firebase-locale", "x-requested-with",
    ]

    /// Fields in which client libraries describe themselves, their retries and their timeouts.
    private static let clientFields = [
        "x-stainless-lang", "x-stainless-package-version", "x-stainless-os", "x-stainless-arch", "x-stainless-runtime",
        "x-stainless-runtime-version", "x-stainless-retry-count", "x-stainless-timeout", "x-stainless-read-timeout", "x-stainless-async",
        "x-stainless-helper-method", "x-stainless-poll-helper", "x-stainless-custom-poll-interval", "x-stainless-raw-response",
        "x-stainless-helper", "x-stripe-client-user-agent", "x-stripe-client-telemetry", "x-amz-user-agent", "amz-sdk-invocation-id",
        "amz-sdk-request", "x-amz-date", "x-amz-content-sha256", "x-ms-date", "x-ms-useragent", "sdkversion", "x-goog-api-client",
        "x-client-data", "x-chrome-connected", "x-chrome-uma-enabled", "x-firebase-client", "x-firebase-client-log-type",
        "x-firebase-appcheck", "x-contentful-user-agent", "x-algolia-agent", "x-client-info",
        "x-apollo-operation-name", "x-apollo-operation-id", "x-apollo-operation-type", "apollographql-client-name",
        "apollographql-client-version", "apollo-require-preflight", "graphql-client-name", "graphql-client-version",
        "x-parse-client-version", "x-parse-os-version", "x-parse-app-build-version", "x-parse-app-display-version",
        "x-elastic-client-meta", "x-elastic-product-origin", "x-launchdarkly-user-agent", "x-launchdarkly-wrapper",
        "x-launchdarkly-event-schema", "x-launchdarkly-payload-id", "x-launchdarkly-tags", "statsig-sdk-type", "statsig-sdk-version",
        "statsig-client-time", "statsig-event-count", "kubectl-command", "npm-command", "npm-in-ci", "pacote-req-type", "pacote-pkg-id",
        "pacote-version", "pacote-integrity", "grpc-timeout", "x-server-timeout", "request-timeout", "x-retry-count", "x-retry-attempt",
    ]
}

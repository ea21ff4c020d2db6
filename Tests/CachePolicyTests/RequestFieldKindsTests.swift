// Table tests of the kinds of request fields. The tables contain fields of client libraries, agents and CDNs, and fields by which public
// APIs select an account, a project or a version.

import CachePolicy
import HTTPCore
import Testing

@Suite("Kinds of request fields")
struct RequestFieldKindsTests {
    private let kinds = RequestFieldKinds(CachePolicySettings())

    private func kind(_ name: String) -> RequestFieldKind { kinds.kind(of: Array(name.utf8).span) }

    struct Sender: Sendable, CustomTestStringConvertible {
        let name: String
        /// Fields that vary by request or by version, without effect on the response.
        let harmless: String
        var credentials = ""
        var unknown = ""

        var testDescription: String { name }

        init(_ name: String, _ harmless: String, credentials: String = "", unknown: String = "") {
            (self.name, self.harmless, self.credentials, self.unknown) = (name, harmless, credentials, unknown)
        }
    }

    static let senders = [
        Sender("curl", "Host User-Agent Accept Range"),
        Sender("wget", "User-Agent Accept Accept-Encoding Connection"),
        Sender("Chrome", "Sec-CH-UA Sec-CH-UA-Mobile Sec-CH-UA-Platform Sec-Fetch-Site Sec-Fetch-Mode Sec-Fetch-Dest Sec-GPC DNT Priority"),
        Sender("Chrome, signed in to Google", "X-Client-Data X-Chrome-Connected X-Chrome-UMA-Enabled"),
        Sender("Chrome, legacy client hints", "DPR Width Viewport-Width Device-Memory RTT Downlink ECT Save-Data"),
        Sender("Firefox", "User-Agent Accept Accept-Language Accept-Encoding Referer Origin TE Upgrade-Insecure-Requests Alt-Used X-Moz"),
        Sender("Safari", "User-Agent Accept-Language Accept-Encoding Purpose X-Purpose Cache-Control Pragma"),
        Sender("a preflight", "Access-Control-Request-Method Access-Control-Request-Headers Access-Control-Request-Private-Network"),
        Sender("a service worker", "Service-Worker Service-Worker-Navigation-Preload"),
        Sender("jQuery", "X-Requested-With"),
        Sender("Android WebView", "X-Requested-With"),
        Sender("URLSession", "Accept Accept-Language Accept-Encoding User-Agent Priority"),
        Sender("OkHttp", "User-Agent Accept-Encoding Connection If-None-Match If-Modified-Since"),
        Sender("Retrofit", "Accept User-Agent"),
        Sender("Alamofire", "Accept-Encoding Accept-Language User-Agent"),
        Sender("Volley", "If-Modified-Since User-Agent"),
        Sender("axios", "Accept User-Agent X-XSRF-TOKEN"),
        Sender("undici", "Accept Accept-Language Sec-Fetch-Mode User-Agent"),
        Sender("requests", "Accept Accept-Encoding Connection User-Agent"),
        Sender("httpx", "Accept Accept-Encoding Connection User-Agent"),
        Sender("aiohttp", "Accept Accept-Encoding User-Agent"),
        Sender("Guzzle", "User-Agent Host"),
        Sender("Faraday", "User-Agent Accept Accept-Encoding"),
        Sender("Go", "User-Agent Accept-Encoding"),
        Sender("Java's client", "HTTP2-Settings Upgrade Connection User-Agent"),
        Sender("Apache HttpClient", "Connection User-Agent Accept-Encoding"),
        Sender(".NET", "Request-Id Traceparent Tracestate Correlation-Context".replacing("Correlation-Context", with: "Request-Context")),
        Sender("Dio", "Content-Type Accept-Encoding User-Agent"),
        Sender("Postman", "User-Agent Cache-Control", credentials: "Postman-Token"),
        Sender("W3C Trace Context", "traceparent tracestate baggage"),
        Sender("Zipkin", "b3 X-B3-TraceId X-B3-SpanId X-B3-ParentSpanId X-B3-Sampled X-B3-Flags"),
        Sender("Jaeger", "uber-trace-id jaeger-debug-id jaeger-baggage"),
        Sender("OpenTracing", "ot-tracer-traceid ot-tracer-spanid ot-tracer-sampled x-ot-span-context"),
        Sender("OpenTelemetry", "traceparent tracestate baggage"),
        Sender("gRPC", "grpc-timeout grpc-trace-bin te"),
        Sender("Sentry", "sentry-trace baggage"),
        Sender(
            "Datadog",
            "x-datadog-trace-id x-datadog-parent-id x-datadog-sampling-priority x-datadog-sampled x-datadog-origin x-datadog-tags"),
        Sender("New Relic", "newrelic X-NewRelic-ID X-NewRelic-Transaction X-NewRelic-Synthetics"),
        Sender("Dynatrace", "X-Dynatrace X-Dynatrace-Test x-dtpc x-dtc x-dtreferer"),
        Sender("AppDynamics", "ADRUM ADRUM_0 ADRUM_1 singularityheader"),
        Sender("Elastic APM", "elastic-apm-traceparent traceparent"),
        Sender("Elasticsearch clients", "X-Elastic-Client-Meta X-Opaque-Id X-Elastic-Product-Origin"),
        Sender("Instana", "X-INSTANA-T X-INSTANA-S X-INSTANA-L X-Instana-Synthetic"),
        Sender("Honeycomb", "X-Honeycomb-Trace"),
        Sender("SkyWalking", "sw8 sw8-correlation sw8-x sw6"),
        Sender("Pinpoint", "Pinpoint-TraceID Pinpoint-SpanID Pinpoint-pSpanID Pinpoint-Sampled Pinpoint-Flags Pinpoint-pAppName"),
        Sender("Linkerd", "l5d-ctx-trace l5d-reqid"),
        Sender("Envoy", "X-Request-Id X-Envoy-Attempt-Count X-Envoy-Expected-Rq-Timeout-Ms X-Envoy-Internal X-Envoy-External-Address"),
        Sender("Istio", "X-Envoy-Peer-Metadata X-Envoy-Peer-Metadata-Id X-Envoy-Decorator-Operation X-B3-TraceId"),
        Sender("Application Insights", "Request-Id Request-Context x-ms-request-id x-ms-request-root-id"),
        Sender("Bugsnag", "Bugsnag-Sent-At Bugsnag-Payload-Version", credentials: "Bugsnag-Api-Key"),
        Sender(
            "names of requests",
            "X-Request-ID Request-ID X-RequestId X-Correlation-ID X-CorrelationId Correlation-Id X-Trace-Id X-Transaction-Id"),
        Sender("X (Twitter)", "X-Client-Transaction-Id", credentials: "X-Guest-Token"),
        Sender("AWS load balancers", "X-Amzn-Trace-Id X-Amzn-TLS-Version X-Amzn-TLS-Cipher-Suite", credentials: "X-Amzn-Oidc-Identity"),
        Sender(
            "AWS SDKs", "X-Amz-Date X-Amz-User-Agent X-Amz-Content-SHA256 amz-sdk-invocation-id amz-sdk-request",
            credentials: "X-Amz-Security-Token"),
        Sender(
            "CloudFront",
            "X-Amz-Cf-Id CloudFront-Viewer-Country CloudFront-Is-Mobile-Viewer "
                + "CloudFront-Viewer-Address CloudFront-Forwarded-Proto Via"),
        Sender(
            "Cloudflare",
            "CF-Ray CF-Visitor CF-IPCountry CF-Connecting-IP CF-Worker CF-EW-Via CDN-Loop CF-IPCity CF-Timezone True-Client-IP"),
        Sender("Fastly", "Fastly-FF Fastly-SSL Fastly-Client-IP Fastly-Client Fastly-Orig-Accept-Encoding X-Timer X-Varnish"),
        Sender("Akamai", "Akamai-Origin-Hop X-Akamai-EdgeScape X-Akamai-Config-Log-Detail X-Akamai-Request-ID True-Client-IP"),
        Sender("Vercel", "x-vercel-id x-vercel-ip-country x-vercel-ip-city x-vercel-forwarded-for x-vercel-ja4-digest"),
        Sender("Fly", "Fly-Request-Id Fly-Region Fly-Client-IP"),
        Sender("Render", "Rndr-Id"),
        Sender("Heroku", "X-Request-Start X-Request-Id Connect-Time Total-Route-Time Via"),
        Sender("Netlify", "X-NF-Request-ID X-NF-Client-Connection-IP"),
        Sender("Azure Front Door", "X-Azure-Ref X-Azure-RequestChain X-Azure-ClientIP X-Azure-SocketIP X-FD-HealthProbe"),
        Sender("Azure App Service", "X-ARR-LOG-ID X-AppGW-Trace-Id"),
        Sender("Google load balancers", "X-Cloud-Trace-Context Via"),
        Sender("App Engine", "X-AppEngine-Country X-AppEngine-Region X-AppEngine-City X-AppEngine-CityLatLong X-AppEngine-Request-Log-Id"),
        Sender("Cloud Foundry", "X-Vcap-Request-Id"),
        Sender("Oracle", "opc-request-id ECID-Context X-ORACLE-DMS-ECID X-ORACLE-DMS-RID"),
        Sender("SAP", "SAP-PASSPORT X-CorrelationID"),
        Sender("Atlassian", "X-ARequestId atl-traceid"),
        Sender("nginx", "X-Real-IP X-Forwarded-For"),
        Sender(
            "Firebase", "X-Firebase-Client X-Firebase-Client-Log-Type X-Firebase-AppCheck X-Firebase-Locale",
            unknown: "X-Firebase-GMPID"),
        Sender("Google API clients", "x-goog-api-client", credentials: "X-Goog-Api-Key", unknown: "X-Goog-User-Project"),
        Sender("Android's Google API keys", "", unknown: "X-Android-Package X-Android-Cert X-Ios-Bundle-Identifier"),
        Sender(
            "Microsoft Graph", "client-request-id return-client-request-id SdkVersion x-ms-client-request-id",
            unknown: "ConsistencyLevel"),
        Sender("Azure Storage", "x-ms-date x-ms-client-request-id x-ms-useragent", unknown: "x-ms-version"),
        Sender(
            "OpenAI",
            "X-Stainless-Lang X-Stainless-Package-Version X-Stainless-OS X-Stainless-Arch X-Stainless-Runtime X-Stainless-Retry-Count X-Stainless-Async",
            credentials: "OpenAI-Organization", unknown: "OpenAI-Project OpenAI-Beta"),
        Sender(
            "Anthropic", "X-Stainless-Timeout X-Stainless-Helper-Method",
            credentials: "X-Api-Key", unknown: "anthropic-version anthropic-beta"),
        Sender(
            "Stripe", "X-Stripe-Client-User-Agent X-Stripe-Client-Telemetry Idempotency-Key",
            unknown: "Stripe-Account Stripe-Version Stripe-Context"),
        Sender("PayPal", "PayPal-Request-Id", unknown: "PayPal-Auth-Assertion PayPal-Partner-Attribution-Id"),
        Sender("GitHub", "Accept", unknown: "X-GitHub-Api-Version"),
        Sender("Supabase", "X-Client-Info", credentials: "apikey", unknown: "Accept-Profile Content-Profile Prefer"),
        Sender("Contentful", "X-Contentful-User-Agent"),
        Sender("Algolia", "X-Algolia-Agent", credentials: "X-Algolia-API-Key X-Algolia-Application-Id"),
        Sender(
            "Apollo",
            "apollographql-client-name apollographql-client-version X-Apollo-Operation-Name X-Apollo-Operation-Id Apollo-Require-Preflight"),
        Sender("GraphQL Hive", "graphql-client-name graphql-client-version"),
        Sender("Parse", "X-Parse-Client-Version X-Parse-OS-Version X-Parse-App-Build-Version", credentials: "X-Parse-Session-Token"),
        Sender("LaunchDarkly", "X-LaunchDarkly-User-Agent X-LaunchDarkly-Wrapper X-LaunchDarkly-Event-Schema X-LaunchDarkly-Payload-ID"),
        Sender("Statsig", "STATSIG-SDK-TYPE STATSIG-SDK-VERSION STATSIG-CLIENT-TIME", credentials: "STATSIG-API-KEY"),
        Sender("RevenueCat", "", unknown: "X-Nonce X-Is-Sandbox X-Platform"),
        Sender("kubectl", "Kubectl-Command", credentials: "Kubectl-Session", unknown: "Impersonate-Extra-Scopes Impersonate-Uid"),
        Sender("impersonation in Kubernetes", "", credentials: "Impersonate-User", unknown: "Impersonate-Group"),
        Sender("npm", "npm-command npm-in-ci pacote-req-type pacote-pkg-id pacote-version", credentials: "npm-session"),
        Sender("SendGrid", "", unknown: "On-Behalf-Of"),
        Sender("Mailgun", "", unknown: "X-Mailgun-On-Behalf-Of"),
        Sender("Twilio", "", unknown: "X-Twilio-Account"),
        Sender("Zendesk", "", unknown: "X-On-Behalf-Of"),
        Sender("Box", "", unknown: "As-User-Type"),
        Sender("Dropbox", "", unknown: "Dropbox-API-Select-Admin Dropbox-API-Path-Root"),
        Sender("Notion and Shopify, by version", "", unknown: "Notion-Version Api-Version X-Api-Version Accept-Version"),
        Sender("Salesforce", "", unknown: "Sforce-Query-Options"),
        Sender("Harvest", "", credentials: "Harvest-Account-Id"),
        Sender("a custom app", "", unknown: "X-Device-Id X-Timestamp X-Signature X-App-Version X-Locale"),
        Sender("fields that resemble browser fields", "Sec-Anything", unknown: "Secret-Santa X-Sec-Fetch-Site"),
        Sender("other spellings", "", unknown: "X_Request_Id User_Agent X.Request.Id"),
    ]

    @Test("the fields of a known client are classified as harmless, credential or unknown", arguments: senders)
    func table(_ sender: Sender) {
        for (names, expected) in [
            (sender.harmless, RequestFieldKind.harmless), (sender.credentials, .credential), (sender.unknown, .unknown),
        ] {
            for name in names.split(separator: " ").map(String.init) {
                #expect(kind(name) == expected, "\(name)")
                #expect(kind(name.lowercased()) == expected && kind(name.uppercased()) == expected, "\(name)")
            }
        }
    }

    @Test("the table covers at least a hundred clients")
    func count() { #expect(Self.senders.count >= 100) }

    @Test("a credential field stays a credential even if listed as harmless")
    func credentialFirst() {
        var settings = CachePolicySettings()
        settings.harmlessFields += ["x-session", "x-device-id"]
        let kinds = RequestFieldKinds(settings)
        #expect(kinds.kind(of: Array("X-Session".utf8).span) == .credential)
        #expect(kinds.kind(of: Array("X-Device-Id".utf8).span) == .harmless)
    }

    @Test("the operator adds and removes harmless fields")
    func changes() {
        let names = HarmlessFields.changed(["a", "b"], by: ["+X-Device-Id", "-A", "-c"])
        #expect(names == ["b", "x-device-id"])
    }

    @Test("fields in the cache key and fields that Cistern sets are harmless")
    func elsewhere() {
        var settings = CachePolicySettings()
        #expect(kind("X-Forwarded-Host") == .unknown && kind("X-Custom") == .unknown)
        settings.keyFields = ["x-custom"]
        settings.fieldsSetAnew = ["x-forwarded-host"]
        let kinds = RequestFieldKinds(settings)
        #expect(kinds.kind(of: Array("X-Custom".utf8).span) == .harmless)
        #expect(kinds.kind(of: Array("X-Forwarded-Host".utf8).span) == .harmless)
    }

    @Test("harmless field names are unique, lower-case and not credentials")
    func list() {
        let names = CachePolicySettings().harmlessFields
        #expect(Set(names).count == names.count)
        #expect(names.allSatisfy { $0 == $0.lowercased() })
        let credentials = names.filter { $0 != "cookie" && CredentialNames.wellKnown.contains(Array($0.utf8)) }
        #expect(credentials == [])
    }
}

// Names of fields and cookies with a known meaning: the defaults of the corresponding settings.

public enum WellKnownNames {
    /// Request fields that carry credentials, in lower case. A leading `*` matches any beginning, because there are more such names than a
    /// list can hold.
    public static let credentialFields = [
        "authorization", "cookie", "x-api-key", "*token", "*api-key", "*authorization", "*jwt", "*jwt-assertion", "*session",
        "*session-id", "*secret", "*access-key", "*secret-key", "*master-key", "*subscription-key", "*client-cert", "*user", "*user-id",
        "*user-name", "*user-info", "*email", "*login", "*password", "*passwd", "*sid", "*session-key", "*ticket", "*credential",
        "*credentials", "*bearer", "*license-key", "*member-id", "*subscriber-id", "*employee-id", "*patient-id", "*msisdn",
        "x-wsse", "*principal", "*principal-id", "*principal-name", "*claim-sub",
        "remote-name", "x-remote-name", "uid", "x-uid", "x-authentik-uid", "x-subject", "x-auth-subject", "x-jwt-sub", "x-jwt-payload",
        "eppn", "x-consumer-id", "x-consumer-custom-id", "x-credential-identifier", "x-amzn-oidc-data", "x-amzn-oidc-identity",
        "x-amzn-mtls-clientcert-subject", "x-amzn-mtls-clientcert-leaf", "x-amzn-mtls-clientcert-serial-number",
        "x-amzn-mtls-clientcert-issuer", "x-forwarded-tls-client-cert-info", "ssl-client-subject-dn", "x-client-dn", "*auth",
        "*authentication", "x-auth-key", "dpop", "sudo", "x-appwrite-key", "x-jfrog-art-api",
        // Credentials that many users share.
        "*client-id", "*tenant", "*tenant-id", "*org-id", "*organization", "*organization-id", "*workspace-id", "*company-id",
        "*account-id", "*customer-id", "*groups", "*role", "*roles", "x-app-key", "x-application-key", "dd-application-key",
        "x-functions-key", "client", "x-appwrite-project", "x-algolia-application-id", "x-parse-application-id",
    ]

    /// Credential fields that a whole group of users may share.
    public static let groupCredentials = [
        "*client-id", "*tenant", "*tenant-id", "*org-id", "*organization", "*organization-id", "*workspace-id", "*company-id",
        "*account-id", "*customer-id", "*groups", "*role", "*roles", "x-app-key", "x-app-token", "x-application-key",
        "dd-application-key", "x-functions-key", "client", "x-appwrite-project", "x-algolia-application-id", "x-algolia-api-key",
        "x-parse-application-id", "x-parse-rest-api-key", "x-parse-master-key", "x-shopify-storefront-access-token", "trakt-api-key",
    ]

    /// Cookies that do not identify a user: those of analytics, load balancers and bot protection. A trailing `*` matches any ending.
    public static let ignoredCookies = [
        "_ga", "_ga_*", "_gid", "_gat", "_gat_gtag_*", "_gat_UA*", "_gac_UA*", "_gac_gb_*", "_gcl_au", "_gcl_aw", "_gcl_dc", "_gcl_gb",
        "_gcl_gs", "__utm*", "_fbp", "_fbc", "_hjid", "_hjSession*", "_hjIncludedIn*", "_hjAbsoluteSession*", "_hjFirstSeen",
        "_hjTLDTest", "_pk_id.*", "_pk_ses.*", "_pk_ref.*", "_pk_cvar.*", "_pk_hsr.*", "_clck", "_clsk", "OptanonConsent",
        "OptanonAlertBoxClosed", "CookieConsent", "AWSALB", "AWSALBCORS", "AWSALBTG", "AWSALBTGCORS", "AWSALBAPP-*", "AWSELB",
        "AWSELBCORS", "GCLB", "GCILB", "ARRAffinity", "ARRAffinitySameSite", "ApplicationGatewayAffinity",
        "ApplicationGatewayAffinityCORS", "BIGipServer*", "citrix_ns_id*", "SERVERID", "INGRESSCOOKIE", "__cf_bm", "__cflb", "__cfruid",
        "_cfuvid", "incap_ses_*", "visid_incap_*", "nlbi_*", "ak_bmsc", "bm_sv", "bm_sz", "_abck",
    ]

    /// Request fields that select another host, method or target at some upstreams, in lower case.
    public static let overrideFields = [
        "x-host", "x-original-host", "x-host-override", "x-http-host-override", "x-backend-host", "x-http-method",
        "x-http-method-override", "x-method-override", "x-original-method", "x-forwarded-method", "x-original-url", "x-original-uri",
        "x-original-path", "x-rewrite-url", "x-override-url", "x-request-uri", "request-uri", "x-envoy-original-path", "x-script-name",
        "script-name", "x-forwarded-path", "x-forwarded-uri", "x-forwarded-ssl", "x-forwarded-protocol", "x-scheme", "x-url-scheme",
        "front-end-https", "x-wap-profile", "proxy",
        "x-forwarded-request-uri", "x-forwarded-url", "x-forwarded-original-url", "x-forwarded-pathbase", "x-http-path-override",
        "x-http-destinationurl", "x-method", "base-url",
        "http-host", "x-requested-host",
    ]

    /// Request fields that contain a client's address, in lower case.
    public static let addressFields = [
        "x-client-ip", "x-clientip", "client-ip", "x-cluster-client-ip", "x-remote-ip", "x-remote-addr", "remote-addr",
        "x-originating-ip", "x-original-forwarded-for", "x-original-remote-addr", "x-forwarded", "forwarded-for", "x-proxyuser-ip",
        "x-envoy-external-address", "true-client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "cf-pseudo-ipv4", "fastly-client-ip",
        "fly-client-ip", "do-connecting-ip", "x-nf-client-connection-ip", "x-vercel-forwarded-for", "x-vercel-ip", "x-azure-clientip",
        "x-azure-socketip", "x-arr-clientip", "x-appengine-user-ip", "x-appengine-remote-addr", "x-sucuri-clientip", "cdn-real-ip",
        "ali-cdn-real-ip", "cdn-src-ip", "incap-client-ip", "wl-proxy-client-ip", "proxy-client-ip",
    ]

    /// Request fields in which proxies name the authenticated user or a verified client certificate, in lower case. A trailing `*` matches
    /// any ending.
    public static let identityFields = [
        // oauth2-proxy, Pomerium, Keycloak Gatekeeper.
        "x-forwarded-user", "x-forwarded-email", "x-forwarded-groups", "x-forwarded-preferred-username", "x-forwarded-access-token",
        "x-forwarded-login", "x-forwarded-roles", "x-auth-request-*", "x-auth-username", "x-auth-userid", "x-auth-email", "x-auth-roles",
        "x-auth-groups", "x-auth-subject", "x-pomerium-*",
        // Authelia, authentik, Tailscale, Apache, CGI.
        "remote-user", "remote-email", "remote-groups", "remote-name", "x-remote-user", "x-remote-email", "x-remote-groups",
        "x-remote-name", "x-remote-group", "x-remote-extra-*", "x-authentik-*", "tailscale-user-*", "redirect-remote-user", "auth-user",
        "auth-type", "eppn", "x-webauth-*",
        // Amazon, Azure, Cloudflare, Google.
        "x-amzn-oidc-*", "x-amzn-mtls-*", "x-ms-client-principal", "x-ms-client-principal-*", "x-ms-token-*", "cf-access-*",
        "cf-client-cert-*", "x-goog-authenticated-user-*", "x-goog-iap-*", "x-endpoint-api-userinfo", "x-apigateway-api-userinfo",
        "x-appengine-user-email", "x-appengine-user-id", "x-appengine-user-is-admin", "x-appengine-user-nickname",
        "x-appengine-auth-domain", "x-appengine-inbound-appid",
        // Kong, Istio.
        "x-consumer-*", "x-credential-identifier", "x-anonymous-consumer", "x-authenticated-*", "x-userinfo",
        // Client certificates: Envoy, Traefik, nginx, HAProxy, F5, IIS, Apache.
        "x-forwarded-client-cert", "x-forwarded-tls-client-cert", "x-forwarded-tls-client-cert-info", "ssl-client-*", "x-client-cert",
        "x-client-cert-*", "x-client-dn", "x-client-verify", "x-client-subject", "x-client-certificate", "x-arr-clientcert",
        "x-ssl-cert", "x-ssl-issuer", "x-ssl-subject", "x-tls-client-*", "x-mtls-*", "ssl-cert", "x-common-name",
    ]
}

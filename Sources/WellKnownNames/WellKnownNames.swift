// Names that others have made up, and that count for something unless the operator says otherwise: the defaults of the settings of the same names.

public enum WellKnownNames {
    /// Request fields that carry credentials, in lower case.
    public static let credentialFields = [
        "authorization", "cookie", "x-api-key", "api-key", "apikey", "x-apikey", "x-api-token", "api-token", "x-auth-token", "auth-token",
        "x-auth-key", "x-auth-user", "x-auth", "x-authorization", "x-access-token", "access-token", "x-session-token", "x-session-id",
        "session-token", "session-id", "x-session", "x-token", "token", "x-user-token", "x-user-id", "x-user", "x-user-email",
        "x-id-token", "x-jwt", "x-jwt-assertion", "x-app-token", "x-app-key", "x-application-key", "x-client-id", "x-client-secret",
        "x-account-id", "x-tenant-id", "x-org-id", "x-csrf-token", "x-xsrf-token", "dpop", "private-token", "job-token", "deploy-token",
        "sudo", "x-vault-token", "x-consul-token", "x-subject-token", "x-storage-token", "x-parse-session-token",
        "x-shopify-access-token", "x-rapidapi-key", "x-goog-api-key", "x-goog-iap-jwt-assertion", "x-goog-authenticated-user-id",
        "x-amz-security-token", "x-amzn-oidc-data", "x-amzn-oidc-identity", "ocp-apim-subscription-key", "x-functions-key", "x-zumo-auth",
        "x-ms-client-principal", "cf-access-jwt-assertion", "cf-access-client-id", "cf-access-client-secret", "remote-user",
        "x-remote-user", "x-forwarded-user", "x-forwarded-email", "x-forwarded-access-token", "x-auth-request-user",
        "x-auth-request-email", "x-auth-request-access-token", "x-webauth-user", "x-authenticated-user", "x-authenticated-userid",
        "x-consumer-id", "x-forwarded-client-cert", "client-cert", "dd-api-key", "dd-application-key", "impersonate-user",
        "x-forwarded-authorization", "x-forwarded-preferred-username", "x-serverless-authorization", "x-apigateway-api-userinfo",
        "x-endpoint-api-userinfo", "x-userinfo", "tailscale-user-login", "x-pomerium-jwt-assertion", "x-pomerium-claim-email",
        "x-pomerium-claim-sub", "x-pomerium-claim-user", "x-authentik-username", "x-authentik-jwt", "x-authentik-uid",
        "x-authentik-email", "teleport-jwt-assertion", "x-auth-username", "x-auth-userid", "x-auth-subject", "x-auth-email",
        "x-auth-request-preferred-username", "x-consumer-username", "x-consumer-custom-id", "x-credential-identifier",
        "remote-email", "remote-name", "remote-groups", "x-hasura-admin-secret", "x-hasura-user-id", "x-hasura-role",
        "x-redmine-api-key", "x-plex-token", "x-emby-token", "x-mediabrowser-token", "x-meili-api-key", "x-typesense-api-key",
        "x-algolia-api-key", "x-algolia-application-id", "x-postmark-server-token", "x-postmark-account-token", "x-gitlab-token",
        "x-figma-token",
    ]

    /// Those among them that a whole group of users may have in common.
    public static let groupCredentials = [
        "x-client-id", "x-tenant-id", "x-org-id", "x-account-id", "x-app-key", "x-app-token", "x-application-key", "dd-application-key",
        "x-functions-key",
    ]

    /// Cookies that say nothing about who somebody is: of analytics, load balancers and guards against robots. `*` at the end stands for any rest.
    public static let ignoredCookies = [
        "_ga", "_ga_*", "_gid", "_gat", "_gat_gtag_*", "_gat_UA*", "_gac_UA*", "_gac_gb_*", "_gcl_au", "_gcl_aw", "_gcl_dc", "_gcl_gb",
        "_gcl_gs", "__utm*", "_fbp", "_fbc", "_hjid", "_hjSession*", "_hjIncludedIn*", "_hjAbsoluteSession*", "_hjFirstSeen",
        "_hjTLDTest", "_pk_id.*", "_pk_ses.*", "_pk_ref.*", "_pk_cvar.*", "_pk_hsr.*", "_clck", "_clsk", "OptanonConsent",
        "OptanonAlertBoxClosed", "CookieConsent", "AWSALB", "AWSALBCORS", "AWSALBTG", "AWSALBTGCORS", "AWSALBAPP-*", "AWSELB",
        "AWSELBCORS", "GCLB", "GCILB", "ARRAffinity", "ARRAffinitySameSite", "ApplicationGatewayAffinity",
        "ApplicationGatewayAffinityCORS", "BIGipServer*", "citrix_ns_id*", "SERVERID", "INGRESSCOOKIE", "__cf_bm", "__cflb", "__cfruid",
        "_cfuvid", "incap_ses_*", "visid_incap_*", "nlbi_*", "ak_bmsc", "bm_sv", "bm_sz", "_abck",
    ]

    /// Request fields by which some upstreams let another host, method or target be asked for, in lower case.
    public static let overrideFields = [
        "x-host", "x-original-host", "x-host-override", "x-http-host-override", "x-backend-host", "x-http-method",
        "x-http-method-override", "x-method-override", "x-original-method", "x-forwarded-method", "x-original-url", "x-original-uri",
        "x-original-path", "x-rewrite-url", "x-override-url", "x-request-uri", "request-uri", "x-envoy-original-path", "x-script-name",
        "script-name", "x-forwarded-path", "x-forwarded-uri", "x-forwarded-ssl", "x-forwarded-protocol", "x-scheme", "x-url-scheme",
        "front-end-https", "x-wap-profile", "proxy",
        "x-forwarded-request-uri", "x-forwarded-pathbase", "x-http-path-override", "x-http-destinationurl", "x-method", "base-url",
        "http-host", "x-requested-host",
    ]

    /// Request fields that tell a client's address, in lower case.
    public static let addressFields = [
        "x-client-ip", "x-clientip", "client-ip", "x-cluster-client-ip", "x-remote-ip", "x-remote-addr", "remote-addr",
        "x-originating-ip", "x-original-forwarded-for", "x-original-remote-addr", "x-forwarded", "forwarded-for", "x-proxyuser-ip",
        "x-envoy-external-address", "true-client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "cf-pseudo-ipv4", "fastly-client-ip",
        "fly-client-ip", "do-connecting-ip", "x-nf-client-connection-ip", "x-vercel-forwarded-for", "x-vercel-ip", "x-azure-clientip",
        "x-azure-socketip", "x-arr-clientip", "x-appengine-user-ip", "x-appengine-remote-addr", "x-sucuri-clientip", "cdn-real-ip",
        "ali-cdn-real-ip", "cdn-src-ip", "incap-client-ip", "wl-proxy-client-ip", "proxy-client-ip",
    ]
}

// Table tests of which request fields are credentials, of one user or of many.

import Forwarding
import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Names of credential fields")
struct CredentialNamesTests {
    private static func names(_ text: String) -> [String] { text.split { $0.isWhitespace }.map(String.init) }

    /// Fields with credentials of a single user.
    private static let personal = names(
        """
        authorization cookie x-api-key api-key apikey x-apikey x-api-token api-token x-auth-token auth-token x-auth-key x-auth-user x-auth
        x-authorization x-access-token access-token x-session-token x-session-id session-token session-id x-session x-token token
        x-user-token x-user-id x-user x-user-email x-id-token x-jwt x-jwt-assertion x-client-secret x-csrf-token x-xsrf-token dpop
        private-token job-token deploy-token sudo x-vault-token x-consul-token x-subject-token x-storage-token x-parse-session-token
        x-shopify-access-token x-rapidapi-key x-goog-api-key x-goog-iap-jwt-assertion x-goog-authenticated-user-id x-amz-security-token
        x-amzn-oidc-data x-amzn-oidc-identity ocp-apim-subscription-key x-zumo-auth x-ms-client-principal cf-access-jwt-assertion
        cf-access-client-secret remote-user x-remote-user x-forwarded-user x-forwarded-email x-forwarded-access-token x-auth-request-user
        x-auth-request-email x-auth-request-access-token x-webauth-user x-authenticated-user x-authenticated-userid x-consumer-id
        x-forwarded-client-cert client-cert dd-api-key impersonate-user x-forwarded-authorization x-forwarded-preferred-username
        x-serverless-authorization x-apigateway-api-userinfo x-endpoint-api-userinfo x-userinfo tailscale-user-login
        x-pomerium-jwt-assertion x-pomerium-claim-email x-pomerium-claim-sub x-pomerium-claim-user x-authentik-username x-authentik-jwt
        x-authentik-uid x-authentik-email teleport-jwt-assertion x-auth-username x-auth-userid x-auth-subject x-auth-email
        x-auth-request-preferred-username x-consumer-username x-consumer-custom-id x-credential-identifier remote-email remote-name
        x-hasura-admin-secret x-hasura-user-id x-redmine-api-key x-plex-token x-emby-token x-mediabrowser-token x-meili-api-key
        x-typesense-api-key x-postmark-server-token x-postmark-account-token x-gitlab-token x-figma-token x-amzn-mtls-clientcert
        x-amzn-mtls-clientcert-subject x-amzn-mtls-clientcert-leaf x-amzn-mtls-clientcert-serial-number x-amzn-mtls-clientcert-issuer
        x-arr-clientcert x-ms-client-principal-id x-ms-client-principal-name x-ms-token-aad-access-token x-ms-token-aad-id-token
        ssl-client-cert ssl-client-subject-dn x-forwarded-tls-client-cert x-forwarded-tls-client-cert-info x-client-cert x-client-dn
        x-grafana-user x-trino-user x-presto-user x-auth-couchdb-username es-security-runas-user x-vouch-user x-vouch-idp-accesstoken
        x-amzn-oidc-accesstoken x-goog-authenticated-user-email oidc-claim-sub oidc_claim_email oidc-access-token eppn shib-user
        x-emby-authorization user-token x-tableau-auth x-appwrite-session x-appwrite-jwt x-appwrite-key x-cybozu-api-token
        x-cybozu-authorization xi-api-key x-riot-token x-cassandra-token circle-token x-nuget-apikey x-jfrog-art-api x-mstr-authtoken
        cart-token x-cart-token x-guest-token uid x-userid user-id x-username x-user-name x-uid x-principal x-subject authentication auth
        authtoken x-authtoken x-authentication-token x-access-key x-secret-key x-bearer-token x-jwt-payload x-jwt-sub x-remote-email
        x-remote-name X-CSRFToken X_Own_User_Id
        """)

    private static let groups = names(
        """
        x-app-token x-app-key x-application-key x-client-id x-account-id x-tenant-id x-org-id x-functions-key cf-access-client-id
        dd-application-key remote-groups x-hasura-role x-algolia-api-key x-algolia-application-id x-scope-orgid x-grafana-org-id
        x-shopify-storefront-access-token x-appwrite-project client client-id trakt-api-key x-parse-master-key x-parse-rest-api-key
        x-parse-application-id x-customer-id x-tenant tenant-id x-organization-id organization-id openai-organization x-workspace-id
        x-company-id x-forwarded-groups x-auth-request-groups x-remote-groups x-auth-roles x-webauth-role
        """)

    /// Fields that vary with each request, or do not identify the user.
    private static let others = names(
        """
        user-agent x-user-agent x-stripe-client-user-agent sec-fetch-user sec-fetch-site sec-ch-ua sec-websocket-key x-request-id
        x-correlation-id x-amzn-trace-id traceparent baggage idempotency-key x-client-ip x-client-version x-session-affinity x-requested-with
        x-user-timezone x-user-locale accept origin referer priority dnt from proxy-authorization x-forwarded-for x-api-version
        authority x-token-count x-real-ip content-type x-cdn
        """)

    private static func count(_ name: String, _ settings: CredentialSettings = CredentialSettings()) -> String {
        let name = Array(name.utf8)
        guard settings.names.contains(name.span) else { return "not" }
        return settings.groupNames.contains(name.span) ? "for many" : "for one"
    }

    @Test(
        "well-known field names are classified as personal, group or no credentials",
        arguments: personal.map { ($0, "for one") } + groups.map { ($0, "for many") } + others.map { ($0, "not") })
    func wellKnown(name: String, expected: String) {
        #expect(Self.count(name) == expected)
        #expect(Self.count(name.uppercased()) == expected)
    }

    @Test("configured names match with a leading *, with - and _ equal, and a lone * matches nothing")
    func own() {
        var settings = CredentialSettings()
        settings.fields = ["x-own", "*-own-id", "own_user", "*request-id", "*"]
        settings.groupFields = ["*-id", "x-none"]
        let one = ["X_Own", "own-user"]
        let many = ["x-own-id", "y_OWNID", "ownid"]
        // A name with a number is not matched by its ending.
        let others = ["x-other", "x-request-id", "own", "id", "a-id", "xown", "x-none"]
        for (names, expected) in [(one, "for one"), (many, "for many"), (others, "not")] {
            for name in names { #expect(Self.count(name, settings) == expected, "\(name)") }
        }
        settings.fields.append("x-none")
        #expect(Self.count("x-none", settings) == "for many")
        settings.fields = []
        #expect(settings.names.isEmpty && Self.count("authorization", settings) == "not")
    }
}

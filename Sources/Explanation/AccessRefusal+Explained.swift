// Texts about rejected requests, and advice for the operator.

import Forwarding

extension AccessRefusal {
    var explanation: String {
        switch self {
        case .address: "its client's address is not one that may ask for this"
        case .misdirected: "it asked for a host that is not served here"
        case .noAPI: "it asked for a path that no API is for"
        case .outside: "the upstream may read its path as one outside of the path of upstream.url"
        case .notProxied: "it asked for a URI that is no API's here, as one asks a forward proxy"
        case .otherScheme: "it asked for a whole URI of http through TLS, or of https in clear"
        case .otherCertificate: "its host's clients are asked for another certificate than its connection's were"
        case .noCertificate: "its route wants a client certificate, and its connection has presented none that is good"
        case .requestsPerAddress: "too many requests of its client's address were under way, and nothing fresh was stored"
        case .userOverHTTP2: "its credentials authenticate a connection (NTLM, Negotiate or Kerberos), and its client spoke HTTP/2"
        case .userAtHTTP2Upstream:
            "its credentials authenticate a connection (NTLM, Negotiate or Kerberos), and the upstream accepts HTTP/2 only"
        case .userConnections: "its client, or all clients, had as many upstream connections with a user as they may"
        }
    }

    var advice: WhyAdvice {
        switch self {
        case .address:
            WhyAdvice(
                "access.allow",
                "and access.deny set which clients are admitted: everywhere, for one entry of listen or for one route; trusted_proxies sets how a client's address is found"
            )
        case .misdirected:
            WhyAdvice(
                "forwarding.names",
                "and host of each of apis list the hosts that are served here; without them any is, but for whole URIs of other places")
        case .noAPI: WhyAdvice("apis.path", "says for each API what the paths that it is for begin with")
        case .outside: WhyAdvice("upstream.url", "has a path, and requests are for what lies below it")
        case .notProxied:
            WhyAdvice(
                "forwarding.names",
                "and host of each of apis list the hosts that the forward proxy serves; without them it serves the upstream's host")
        case .otherScheme:
            WhyAdvice(
                "trusted_proxies", "names those in front that may say, by Forwarded or X-Forwarded-Proto, that their client spoke https")
        case .otherCertificate:
            WhyAdvice("tls.certificates", "says for each certificate's names, by client_ca and client_verify, what clients are asked for")
        case .noCertificate:
            WhyAdvice("tls.client_verify", "has clients asked for a certificate; client_certificate of a route, that there must be one")
        case .requestsPerAddress:
            WhyAdvice("limits.requests_per_address", "is how many requests of one address may need the upstream at once")
        case .userOverHTTP2: WhyAdvice("listen.http2", "false: clients that reach that listener over TLS speak HTTP/1.1")
        case .userAtHTTP2Upstream: WhyAdvice("upstream.http2", "auto or off: such requests go over connections of HTTP/1.1")
        case .userConnections:
            WhyAdvice("upstream.connections", "an eighth of them may be authenticated, four for one client; idle ones end after 60 s")
        }
    }
}

// Texts about rejected requests, and advice for the operator.

import Forwarding

extension AccessRefusal {
    var explanation: String {
        switch self {
        case .address: "access.allow or access.deny does not admit the client's address"
        case .misdirected: "Cistern does not serve the requested host"
        case .noAPI: "no API serves the requested path"
        case .outside: "the upstream may interpret the path as one outside the path of upstream.url"
        case .notProxied: "it is a forward proxy request, and its URI belongs to no API"
        case .otherScheme: "it has an absolute http URI on a TLS connection, or an https URI without TLS"
        case .otherCertificate: "the requested host needs another client certificate check than the connection had"
        case .noCertificate: "its route requires a client certificate, and the connection has no verified one"
        case .requestsPerAddress: "too many requests of the client's address were active, and no fresh response is stored"
        case .userOverHTTP2: "its credentials authenticate a connection (NTLM, Negotiate or Kerberos), and the client used HTTP/2"
        case .userBehindProxy:
            "its credentials authenticate a connection (NTLM, Negotiate or Kerberos), and it came from a trusted proxy or a Unix socket"
        case .userAtHTTP2Upstream:
            "its credentials authenticate a connection (NTLM, Negotiate or Kerberos), and the upstream accepts HTTP/2 only"
        case .userConnections: "the client, or all clients together, reached the limit of authenticated upstream connections"
        }
    }

    var advice: WhyAdvice {
        switch self {
        case .address:
            WhyAdvice(
                "access.allow",
                "and access.deny select the admitted clients: for all addresses, an entry of listen, or a route. Proxies in trusted_proxies may send the client's address"
            )
        case .misdirected:
            WhyAdvice(
                "forwarding.names",
                "and apis.host list the served hosts. Without them every host is served, except in absolute URIs")
        case .noAPI: WhyAdvice("apis.path", "is the path prefix of each API")
        case .outside: WhyAdvice("upstream.url", "has a path, and requests must stay below it")
        case .notProxied:
            WhyAdvice(
                "forwarding.names",
                "and apis.host list the hosts that the forward proxy serves. Without them it serves the upstream's host")
        case .otherScheme:
            WhyAdvice(
                "trusted_proxies", "lists the proxies that may report, in Forwarded or X-Forwarded-Proto, that their client used https")
        case .otherCertificate:
            WhyAdvice(
                "tls.certificates",
                "sets with client_ca and client_verify which client certificate is required for each certificate's names")
        case .noCertificate:
            WhyAdvice(
                "tls.client_verify", "controls whether clients are asked for a certificate; client_certificate of a route requires one")
        case .requestsPerAddress:
            WhyAdvice("limits.requests_per_address", "is the maximum number of concurrent upstream requests of one address")
        case .userOverHTTP2: WhyAdvice("listen.http2", "false: clients use HTTP/1.1 on this TLS listener")
        case .userBehindProxy:
            WhyAdvice("listen.proxy_protocol", "true: a TCP load balancer opens one connection for each client, and states its address")
        case .userAtHTTP2Upstream: WhyAdvice("upstream.http2", "auto or off: such requests use HTTP/1.1 connections")
        case .userConnections:
            WhyAdvice(
                "upstream.connections",
                "limits them: an eighth may be authenticated, at most four for one client. Idle ones are closed after 60 s")
        }
    }
}

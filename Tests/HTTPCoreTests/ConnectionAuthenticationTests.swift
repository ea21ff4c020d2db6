// Tests which authentication schemes authenticate a connection.

import HTTPCore
import Testing

@Suite("Authentication of connections (RFC 4559 §6)")
struct ConnectionAuthenticationTests {
    private func fields(_ name: String, _ values: [String]) -> Fields {
        var fields = Fields()
        for value in values { fields.append(name: name, value: value) }
        return fields
    }

    @Test(
        "connection-based credentials are recognized",
        arguments: [
            ("NTLM TlRMTVNTUAABAAAA", true), ("ntlm TlRM", true), ("Negotiate YIIJ", true), ("NEGOTIATE\tYIIJ", true), ("Negotiate", true),
            ("Kerberos YIIJ", true), ("CredSSP YIIJ", true), ("Basic YTpi, Negotiate YIIJ", true), ("Bearer negotiate", false),
            ("Basic bmVnb3RpYXRl", false), ("Digest realm=\"a\", ntlm=1", false), ("Negotiated YIIJ", false), ("", false), ("NTL", false),
            ("\u{a0}NTLM TlRM", true), ("Basic YTpi,\u{85}Negotiate YIIJ", true), ("'NTLM TlRM'", true),
        ])
    func credentials(_ value: String, _ isUsed: Bool) {
        for name in ["Authorization", "authorization", "Proxy-Authorization"] {
            #expect(ConnectionAuthentication.isUsed(by: fields(name, [value])) == isUsed)
            #expect(ConnectionAuthentication.isUsed(by: fields(name, ["Bearer x", value])) == isUsed)
        }
        #expect(!ConnectionAuthentication.isUsed(by: fields("X-Authorization", [value])))
    }

    @Test(
        "connection-based challenges are recognized as offered or in progress",
        arguments: [
            (["Negotiate"], .offered), (["NTLM"], .offered), (["Basic realm=\"a\", Negotiate, NTLM"], .offered),
            (["Bearer realm=\"a\"", "negotiate"], .offered), (["Negotiate:Kerberos"], .offered), (["Negotiate "], .offered),
            (["Negotiate oYG2"], .underWay), (["Basic realm=\"a\",NTLM TlRM"], .underWay), (["NTLM", "Negotiate oYG2"], .underWay),
            (["Basic realm=\"a, Negotiate b\""], .underWay), (["Basic realm=\"a\""], nil), (["Digest nonce=\"x\", qop=\"auth\""], nil),
            ([""], nil), ([",,"], nil),
        ] as [([String], ConnectionAuthentication.Challenge?)])
    func challenges(_ values: [String], _ expected: ConnectionAuthentication.Challenge?) {
        for name in ["WWW-Authenticate", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info"] {
            #expect(ConnectionAuthentication.challenge(in: fields(name, values)) == expected)
        }
        #expect(ConnectionAuthentication.challenge(in: fields("Authorization", values)) == nil)
    }
}

// Tests which credentials identify a single user, whose partition may then hold private responses.

import HTTPCore
import Testing

@testable import CachePolicy

@Suite("Detection of user credentials")
struct UserCredentialsTests {
    private static func arePresent(_ lines: String, _ change: (inout CachePolicySettings) -> Void = { _ in }) -> Bool {
        var settings = CachePolicySettings()
        change(&settings)
        return UserCredentials.arePresent(in: fields(lines), settings: settings)
    }

    @Test(
        "credential fields are detected by name and value",
        arguments: [
            ("Authorization: Bearer x", true), ("authorization: x", true), ("X-API-Key: 1", true), ("x_api_key: 1", true),
            ("X-User-Id: 7", true), ("X-Tenant-Id: 7", false), ("X-Client-Id: 7\nX-Org-Id: 8", false), ("X-Tenant-Id: 7\nX-User: a", true),
            ("Accept: a", false), ("X-Own: 1234567890abcdef", false), ("Authorization: ", false), ("", false),
            ("X-Own-User: alice", true), ("X-Premium-User: TRUE", false), ("X-User-Token: undefined", false), ("X-API-Key: true", true),
            ("X-Own-Tenant: alice", false),
        ])
    func byField(_ lines: String, _ expected: Bool) {
        #expect(Self.arePresent(lines) == expected)
    }

    @Test(
        "session cookies of common frameworks are detected",
        arguments: [
            "PHPSESSID=el4ukv0kqbvoirg7nkp4dncpk3", "JSESSIONID=5A530637289A03B07199A44E8D531427.node0",
            "connect.sid=s%3A0Yd7mRTIGAB5zWBnBIlnSl2u5mWf0XhI.h5mHnM7e2VvCGsP1XwVbDbFrcBxv", "sessionid=38afes7a8n2w1x0p4m5b6v7c8z9q1l2k",
            "ASP.NET_SessionId=lit3py55t21z5v55vlm25s55", "session=eyJ1c2VyX2lkIjoxfQ.ZzZ9xw.pzZHbqXrJmGm0gkRrSCdTZ3b3xM",
            "SESSION=NjI0ZTQ2YzAtZDk0Ny00OWY2LWI2ZTMtYjA0ZjU2", "id=123e4567-e89b-12d3-a456-426614174000",
            "_app_session=QXz1%2BvT3bZ0f5Yt8c9D2e4f6%3D%3D--a1", "token=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
            "locale=en; sid=\"0123456789abcdef\"",
        ])
    func sessions(_ cookie: String) {
        #expect(Self.arePresent("Cookie: " + cookie))
    }

    @Test(
        "cookies with common preference values are not credentials",
        arguments: [
            "locale=en", "lang=en-US; theme=dark-high-contrast", "tz=America/New_York", "tz=America%2FNew_York", "currency=EUR; country=DE",
            "prefs=%7B%22fontSize%22%3A14%2C%22theme%22%3A%22dark%22%7D", "seen=2024-11-22T08:18:35Z", "uid=4711", "a=", "=x",
            "consent=accepted-2024-01-01", "ui=dark-mode_sidebar-2", "_ga=GA1.2.1234567890.1234567890", "AWSALB=0123456789abcdef0123456789",
        ])
    func choices(_ cookie: String) {
        #expect(!Self.arePresent("Cookie: " + cookie))
    }

    @Test("a configured cookie counts whatever its value, and an unreadable field does not count")
    func named() {
        #expect(Self.arePresent("Cookie: uid=4711") { $0.credentials.cookies = ["uid", "x*"] })
        #expect(!Self.arePresent("Cookie: uid=") { $0.credentials.cookies = ["uid"] })
        #expect(!Self.arePresent("Cookie: x1=4711") { $0.credentials.cookies = ["uid", "x*"] })
        #expect(!Self.arePresent("Cookie: 0123456789abcdef01234") && !Self.arePresent("Cookie: a=\"0123456789abcdef"))
        #expect(!Self.arePresent("Cookie: a=0123456789abcdef") { $0.credentials.fields = ["authorization"] })
        #expect(Self.arePresent("X-Tenant-Id: 7") { $0.credentials.groupFields = [] })
    }
}

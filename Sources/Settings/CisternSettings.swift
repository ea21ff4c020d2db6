// Every setting as a plain value, at its default. What each one means, how it is spelt and what it may be is in `SettingsTable`.

/// Durations are in milliseconds, sizes in bytes.
package struct CisternSettings: Sendable, Equatable {
    package struct Upstream: Sendable, Equatable {
        package var url = ""
        package var unixSocket = ""
        package var http2 = "auto"
        package var proxy = ""
        package var caFile = ""
        package var clientCertificate = ""
        package var clientKey = ""
        package var verify = true
        package var connectTimeout = 5_000
        package var firstByteTimeout = 30_000
        package var betweenBytesTimeout = 30_000
        package var totalTimeout = 120_000
        package var connections = 128
    }

    package struct Store: Sendable, Equatable {
        package var directory = ""
        package var size = 1 << 30
    }

    package struct Cache: Sendable, Equatable {
        package var policy = "rescue"
        package var contentTypes = ["application/json", "+json", "text/json"]
        package var credentialFields = [
            "authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token", "x-access-token", "x-csrf-token",
            "x-amz-security-token",
        ]
        package var keyFields: [String] = []
        package var bufferLimit = 8 << 20
    }

    package struct Limits: Sendable, Equatable {
        package var target = 8_192
        package var head = 32_768
        package var fields = 100
        package var content = 0
        package var connections = 10_000
        package var requestsPerConnection = 0
    }

    package struct Timeouts: Sendable, Equatable {
        package var head = 10_000
        package var keepAlive = 75_000
        package var content = 30_000
        package var write = 60_000
        package var shutdown = 10_000
    }

    package struct Forwarding: Sendable, Equatable {
        package var name = "cistern"
        package var forwarded = "replace"
        package var forwardHost = false
        package var via = true
        package var preserveHost = false
        package var rewriteLocation = true
        package var dropOverrides = true
    }

    package struct Log: Sendable, Equatable {
        package var level = "info"
        package var format = "text"
        package var access = "off"
        package var accessFormat = "json"
    }

    package var upstream = Upstream()
    package var listen = ["127.0.0.1:8080"]
    package var adminListen: [String] = []
    package var ownPages = true
    package var shards = 0
    package var store = Store()
    package var cache = Cache()
    package var limits = Limits()
    package var timeouts = Timeouts()
    package var forwarding = Forwarding()
    package var log = Log()

    package init() {}
}

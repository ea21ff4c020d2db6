// swift-tools-version: 6.2
import PackageDescription

/// Modules on the path of requests are optimized for speed across modules; others are optimized for size, which reduces the binary by a
/// twentieth. Exclusive access is checked in debug builds and tests only: in a release the checks would cost a twentieth of a hit.
func settings(isHot: Bool) -> [SwiftSetting] {
    let optimization = isHot ? "-cross-module-optimization" : "-Osize"
    return [
        .unsafeFlags(["-enforce-exclusivity=unchecked", optimization], .when(configuration: .release)),
        .treatAllWarnings(as: .error),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ]
}

let strict = settings(isHot: true)

/// A module of the program. `.pure` modules do no I/O, read no clock, and import only the listed modules; `.cold` ones process no requests, or
/// few. `.ci/check-sources` compares `dependencies` with the imports, and writes the list in Sources/README.md.
enum Kind { case pure, hot, cold }

func module(
    _ name: String, _ kind: Kind, _ dependencies: [Target.Dependency] = [], readMe: [String] = [], resources: [Resource] = [],
    libraries: [String] = []
) -> Target {
    .target(
        name: name, dependencies: dependencies, exclude: readMe, resources: resources, swiftSettings: settings(isHot: kind != .cold),
        linkerSettings: libraries.map { .linkedLibrary($0) })
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

let structuredFields = Target.Dependency.product(name: "RawStructuredFieldValues", package: "swift-http-structured-headers")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let arguments = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")

/// Packed relative relocations (DT_RELR) reduce the binary by a megabyte. Debian's C library supports them since Debian 12. Folding
/// functions with equal code reduces it by 380 kB; constants are not folded.
let linking = ["-use-ld=lld"] + ["--no-export-dynamic", "--icf=all", "-z", "pack-relative-relocs"].flatMap { ["-Xlinker", $0] }

let package = Package(
    name: "cistern",
    products: [.executable(name: "cistern", targets: ["cistern"])],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-http-structured-headers", exact: "1.7.0"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
    ],
    targets: [
        // libcurl, OpenSSL, nghttp2, Brotli, Zstandard and zlib are shared libraries: libcurl's package brings them all. The other libraries
        // are static, so that the program needs no other packages. The modules that use them name them: the linker's optimization does not
        // find static libraries that a module map names.
        .systemLibrary(name: "CLibcurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CYAML", providers: [.apt(["libyaml-dev"])]),
        .systemLibrary(name: "CHash", providers: [.apt(["libsodium-dev", "libxxhash-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CBrotli", pkgConfig: "libbrotlidec", providers: [.apt(["libbrotli-dev"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .target(name: "CSystem", cSettings: [.define("CSYSTEM_WITHOUT_FOUNDATION", .when(configuration: .release))]),
        .target(name: "CTLS", dependencies: ["CSystem"], linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        // The transport: connections of clients, upstreams and Redis.
        module("Reactor", .hot, ["CSystem"], readMe: ["README.md"]),
        module("HTTP2", .hot, ["CNGHTTP2"]),
        module(
            "Downstream", .hot, ["Addresses", "CSystem", "CTLS", "CachePolicy", "Figures", "HTTP2", "HTTPCore", "Reactor"],
            readMe: ["README.md"]),
        module(
            "Upstream", .hot, ["CLibcurl", "CSystem", "CTLS", "CachePolicy", "Figures", "HTTP2", "HTTPCore", "Reactor"],
            readMe: ["README.md"]),
        module("Engine", .hot, ["CHiredis", "CSystem", "CTLS", "Reactor"], readMe: ["README.md"], libraries: [":libhiredis.a"]),
        module("OwnRequests", .cold, ["CLibcurl"]),
        // Pure decisions, parsers and state machines.
        module("HTTPCore", .pure, ["CHash"], readMe: ["README.md"], libraries: [":libsodium.a", ":libxxhash.a"]),
        module("JSON", .pure, ["HTTPCore"]),
        module("Addresses", .pure, ["HTTPCore"], readMe: ["README.md"]),
        module("Forwarding", .pure, ["HTTPCore"]),
        module("CachePolicy", .pure, ["Forwarding", "HTTPCore", "JSON", structuredFields], readMe: ["README.md"]),
        module("Decisions", .pure, ["CachePolicy", "Forwarding", "HTTPCore", "Upstream"]),
        module(
            "Explanation", .pure, ["Addresses", "CachePolicy", "Decisions", "Figures", "Forwarding", "HTTPCore", "JSON", "Upstream"],
            readMe: ["README.md"]),
        module("Archives", .pure, ["CachePolicy", "Forwarding", "HTTPCore", "JSON"], readMe: ["README.md"]),
        module("Advice", .pure, ["CachePolicy", "Explanation", "HTTPCore"], readMe: ["README.md"]),
        module("Fleet", .pure, readMe: ["README.md"]),
        module("Notifications", .pure, ["Explanation", "HTTPCore", "JSON"], readMe: ["README.md"]),
        module("TakeOver", .pure),
        // The cache.
        module("CacheStore", .hot, ["CHash", "CSystem", "Reactor", "TakeOver"], readMe: ["README.md"]),
        module("ContentCodings", .hot, ["CBrotli", "CZlib", "CZstd", "HTTPCore"]),
        module(
            "ResponseCache", .hot,
            ["CachePolicy", "CacheStore", "ContentCodings", "Figures", "Forwarding", "HTTPCore", "Identity", "Reactor", "TakeOver"],
            readMe: ["README.md"]),
        // The flow of a request, and what reports it.
        module("Figures", .hot, ["CSystem", "Reactor"]),
        module(
            "Tracing", .cold,
            ["CachePolicy", "Decisions", "Explanation", "Figures", "HTTPCore", "JSON", "OwnRequests", "Reactor", "Upstream"],
            readMe: ["README.md"]),
        module(
            "Sending", .hot,
            [
                "CachePolicy", "ContentCodings", "Downstream", "Explanation", "Figures", "Forwarding", "HTTPCore", "Reactor",
                "ResponseCache",
            ], readMe: ["README.md"]),
        module(
            "ReverseProxy", .hot,
            [
                "Addresses", "Administration", "Advice", "CachePolicy", "ContentCodings", "Decisions", "Downstream", "Explanation",
                "Figures", "Forwarding", "HTTPCore", "Identity", "JSON", "Notifications", "Reactor", "ResponseCache", "Sending", "TakeOver",
                "Tracing", "Upstream", logging,
            ], readMe: ["Coordination/README.md", "Examination/README.md"]),
        // Features around the flow, and the program.
        module("Identity", .cold, ["CTLS", "CachePolicy", "HTTPCore", "JSON", "OwnRequests", "Reactor"], readMe: ["README.md"]),
        module("Notifying", .cold, ["CHash", "CSystem", "Figures", "Notifications", "OwnRequests", "Reactor", logging]),
        module(
            "Sharing", .hot,
            [
                "CHash", "CSystem", "CachePolicy", "CacheStore", "ContentCodings", "Engine", "Fleet", "HTTPCore", "Identity", "Reactor",
                "ResponseCache", logging,
            ], readMe: ["README.md"]),
        module(
            "Administration", .cold,
            [
                "Addresses", "Advice", "Archives", "CachePolicy", "Decisions", "Explanation", "Figures", "HTTPCore", "JSON",
                "Notifications", "Reactor", "ResponseCache", "Upstream",
            ],
            resources: [.embedInCode("openapi.json")]),
        module(
            "Settings", .cold,
            [
                "Administration", "CYAML", "CachePolicy", "Downstream", "Figures", "Forwarding", "HTTPCore", "Identity", "JSON",
                "Notifications", "ResponseCache", "ReverseProxy", "Tracing", "Upstream", logging,
            ], libraries: [":libyaml.a"]),
        module(
            "Server", .cold,
            [
                "Addresses", "Administration", "Advice", "CSystem", "CachePolicy", "CacheStore", "ContentCodings", "Downstream", "Engine",
                "Explanation", "Figures", "Fleet", "Forwarding", "HTTPCore", "JSON", "Notifying", "Reactor", "ResponseCache",
                "ReverseProxy", "Sharing", "TakeOver", "Tracing", "Upstream", logging,
            ], readMe: ["README.md"]),
        .executableTarget(
            name: "cistern",
            dependencies: [
                "Addresses", "Administration", "Archives", "CLibcurl", "CSystem", "CachePolicy", "CacheStore", "ContentCodings",
                "Downstream", "Engine", "Figures", "Forwarding", "HTTPCore", "Identity", "JSON", "Notifications", "Notifying", "Reactor",
                "ResponseCache", "ReverseProxy", "Server", "Settings", "Sharing", "Tracing", "Upstream", arguments, logging,
            ],
            swiftSettings: settings(isHot: false),
            // Exporting no dynamic symbols reduces the stripped binary by a twentieth.
            linkerSettings: [.unsafeFlags(linking, .when(configuration: .release))]),
        // `swift run -c release measure-content` measures the processing of content.
        .executableTarget(
            name: "measure-content", dependencies: ["HTTPCore", "JSON", "ContentCodings", "CachePolicy"], path: "Tests/Benchmarks/Content",
            swiftSettings: strict),
        .target(
            name: "CTestTLS", path: "Tests/CTestTLS", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        .target(name: "CTestTokens", path: "Tests/CTestTokens", linkerSettings: [.linkedLibrary("crypto")]),
        .target(name: "CInstructions", path: "Tests/CInstructions"),
        .target(
            name: "TestSupport",
            dependencies: [
                "Addresses", "CNGHTTP2", "CSystem", "CTestTLS", "CTestTokens", "Reactor", "Administration", "Server", "ReverseProxy",
                "CachePolicy",
                "ContentCodings", "Downstream", "HTTP2", "CacheStore", "Upstream", "Figures", "JSON", "Sharing", logging,
            ],
            path: "Tests/TestSupport", swiftSettings: strict),
        tests("TestSupportTests", ["TestSupport"]),
        tests("TakeOverTests", ["TakeOver"]),
        tests("AdviceTests", ["Advice", "CachePolicy", "Explanation", "HTTPCore", "Settings", "TestSupport"]),
        tests("FleetTests", ["CachePolicy", "ReverseProxy", "Decisions", "Fleet", "HTTPCore", "Reactor", "TestSupport", "Upstream"]),
        tests(
            "SharingTests",
            [
                "Sharing", "Addresses", "Administration", "CacheStore", "ContentCodings", "Downstream", "Engine", "Fleet", "Forwarding",
                "Identity", "Reactor", "ResponseCache", "ReverseProxy", "Server", "TestSupport", "Upstream", logging,
            ]),
        tests("ReactorTests", ["Reactor", "CSystem", "TestSupport"]),
        tests("HTTPCoreTests", ["HTTPCore", "TestSupport"]),
        tests("NotificationsTests", ["Notifications", "JSON"]),
        tests("HTTP2Tests", ["HTTP2", "TestSupport"]),
        tests("EngineTests", ["Engine", "CacheStore", "CSystem", "Reactor", "TestSupport"]),
        tests("AddressesTests", ["Addresses", "HTTPCore"]),
        tests("IdentityTests", ["Identity", "CachePolicy", "CacheStore", "HTTPCore", "Reactor", "TestSupport"]),
        tests("StatusPageTests", ["Administration", "Explanation", "Figures"]),
        tests("ArchivesTests", ["Archives", "CachePolicy", "HTTPCore", "JSON", "TestSupport"]),
        tests("JSONTests", ["JSON", "HTTPCore", "TestSupport"]),
        tests("CachePolicyTests", ["CachePolicy", "HTTPCore", "JSON", "TestSupport", "CInstructions", structuredFields]),
        tests("DecisionsTests", ["Decisions", "CachePolicy", "Forwarding", "HTTPCore", "Upstream"]),
        tests("ForwardingTests", ["Forwarding", "HTTPCore"]),
        tests("CacheStoreTests", ["CacheStore", "CSystem", "Reactor", "TestSupport"]),
        tests("ResponseCacheTests", ["ResponseCache", "CachePolicy", "CacheStore", "HTTPCore", "Identity", "JSON", "TestSupport"]),
        tests(
            "CoordinationTests",
            ["CachePolicy", "ReverseProxy", "Decisions", "HTTPCore", "Reactor", "Figures", "TestSupport", "Upstream", logging]),
        tests(
            "ExaminationTests",
            ["ReverseProxy", "CachePolicy", "ContentCodings", "Forwarding", "HTTPCore", "JSON", "TestSupport"]),
        tests(
            "SendingTests",
            ["Sending", "CachePolicy", "CacheStore", "Downstream", "Explanation", "HTTPCore", "ResponseCache", "Figures", "TestSupport"]),
        tests("SettingsTests", ["JSON", "Settings"]),
        tests(
            "CommandTests",
            [
                "cistern", "TestSupport", "Addresses", "Administration", "ReverseProxy", "CachePolicy", "CacheStore", "Settings",
                "Upstream", "CSystem", "Downstream", "Decisions", "Explanation", "Forwarding", "JSON", "ResponseCache", "TakeOver", logging,
            ]),
        tests("UpstreamTests", ["Upstream", "Figures", "HTTPCore", "HTTP2", "Reactor", "TestSupport"]),
        tests(
            "DownstreamTests",
            ["Addresses", "Downstream", "Figures", "HTTPCore", "Reactor", "CSystem", "TestSupport"]),
        tests(
            "TracingTests",
            [
                "Tracing", "CachePolicy", "Decisions", "Explanation", "HTTPCore", "JSON", "OwnRequests", "Reactor", "Figures",
                "TestSupport",
                "Upstream",
            ]),
        tests("FiguresTests", ["Figures", "CachePolicy", "Decisions", "Explanation", "CacheStore", "HTTPCore", "TestSupport"]),
        tests(
            "ClientSideTests",
            [
                "Addresses", "Administration", "CSystem", "CachePolicy", "CacheStore", "Downstream", "Forwarding", "HTTP2", "HTTPCore",
                "JSON", "Reactor", "ReverseProxy", "Server", "TestSupport", "Upstream", logging,
            ]),
        tests(
            "CachingTests",
            [
                "Addresses", "Administration", "CSystem", "CachePolicy", "CacheStore", "ContentCodings", "Downstream", "Engine", "Figures",
                "Forwarding", "HTTPCore", "Identity", "JSON", "Reactor", "ReverseProxy", "Sending", "Sharing", "TestSupport", "Upstream",
            ]),
        tests(
            "RescueTests",
            [
                "Addresses", "Administration", "CachePolicy", "CacheStore", "Downstream", "HTTPCore", "JSON", "Notifications", "Reactor",
                "ReverseProxy", "TestSupport", "Upstream",
            ]),
        tests(
            "UpstreamSideTests",
            [
                "Addresses", "CachePolicy", "CacheStore", "Downstream", "Forwarding", "HTTPCore", "Identity", "JSON", "Reactor",
                "ReverseProxy", "TestSupport", "Upstream",
            ]),
        tests(
            "ServerTests",
            [
                "Addresses", "Administration", "CachePolicy", "CacheStore", "ContentCodings", "Downstream", "Forwarding", "HTTPCore",
                "Identity", "JSON", "Reactor", "ResponseCache", "ReverseProxy", "Server", "TestSupport", "Upstream", logging,
            ]),
        tests(
            "ReportingTests",
            [
                "Addresses", "Administration", "CachePolicy", "Decisions", "Downstream", "Explanation", "Figures", "Forwarding", "HTTPCore",
                "JSON", "Notifications", "Notifying", "Reactor", "ReverseProxy", "Server", "Settings", "TestSupport", "Tracing",
                "Upstream", logging,
            ]),
    ],
    swiftLanguageModes: [.v6]
)

// Properties of code that parses untrusted bytes (Tests/Fuzz): the tests replay known inputs, and `make fuzz` builds the fuzzer.
let fuzzed: [Target.Dependency] = [
    "Addresses", "HTTPCore", "JSON", "ContentCodings", "CachePolicy", "CacheStore", "ResponseCache", "Archives", "Administration",
    "Upstream", "Downstream", "Engine", "HTTP2", "ReverseProxy", "Settings", "CHash", "CSystem", "CTLS",
]
if Context.environment["CISTERN_FUZZ"] == nil {
    package.targets.append(
        .testTarget(
            name: "FuzzTests", dependencies: fuzzed, path: "Tests/Fuzz", exclude: ["Driver", "Corpus", "README.md", "fuzz.sh"],
            sources: ["Properties", "Replay"], swiftSettings: strict))
} else {
    package.targets.append(
        .executableTarget(
            name: "fuzz", dependencies: fuzzed, path: "Tests/Fuzz", exclude: ["Replay", "Corpus", "README.md", "fuzz.sh"],
            sources: ["Properties", "Driver"], swiftSettings: strict))
}

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

/// Modules that process no requests, or few.
let cold: Set = [
    "Administration", "Archives", "FaultInjection", "Identity", "Server", "Settings", "StatusPage", "TakeOver", "Tracing",
]

/// Modules with a README.
let withReadMe: Set = [
    "Addresses", "Archives", "CachePolicy", "CacheStore", "Coordination", "Downstream", "Engine", "Examination", "Explanation", "Fleet",
    "HTTPCore", "Identity", "Reactor", "ResponseCache", "Sending", "Sharing", "Tracing", "Upstream",
]

/// A target of this package, with common language settings.
func room(_ name: String, _ dependencies: [Target.Dependency] = [], resources: [Resource] = []) -> Target {
    .target(
        name: name, dependencies: dependencies, exclude: withReadMe.contains(name) ? ["README.md"] : [], resources: resources,
        swiftSettings: settings(isHot: !cold.contains(name)))
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

let structuredFields = Target.Dependency.product(name: "RawStructuredFieldValues", package: "swift-http-structured-headers")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let arguments = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")

/// Packed relative relocations (DT_RELR) reduce the binary by a megabyte. Debian's C library supports them since Debian 12.
let linking = ["-use-ld=lld", "-Xlinker", "--no-export-dynamic", "-Xlinker", "-z", "-Xlinker", "pack-relative-relocs"]

let package = Package(
    name: "cistern",
    products: [.executable(name: "cistern", targets: ["cistern"])],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-http-structured-headers", exact: "1.7.0"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
    ],
    targets: [
        .systemLibrary(name: "CLibcurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
        .systemLibrary(name: "CHash", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev", "libxxhash-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CBrotli", pkgConfig: "libbrotlidec", providers: [.apt(["libbrotli-dev"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .target(name: "CSystem"),
        .target(name: "CTLS", dependencies: ["CSystem"], linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        .target(name: "CSignature", linkerSettings: [.linkedLibrary("crypto")]),
        room("HTTPCore"),
        room("Figures"),
        room("WellKnownNames"),
        room("Addresses", ["HTTPCore"]),
        room("JSON", ["HTTPCore"]),
        room("Identity", ["HTTPCore", "JSON", "CachePolicy", "CSignature", "CLibcurl", "Descriptors", "Locking", "Reactor"]),
        room("ContentCodings", ["HTTPCore", "CZlib", "CBrotli", "CZstd"]),
        room("CachePolicy", ["HTTPCore", "JSON", "WellKnownNames", structuredFields]),
        room("Forwarding", ["HTTPCore", "WellKnownNames"]),
        room("Archives", ["HTTPCore", "JSON", "CachePolicy", "Forwarding"]),
        room("TakeOver"),
        room("Fleet"),
        room("Locking"),
        room("Descriptors"),
        room("Hashing", ["HTTPCore", "CHash"]),
        room("CacheStore", ["CSystem", "Descriptors", "CHash", "Locking", "TakeOver"]),
        room(
            "ResponseCache",
            [
                "HTTPCore", "CachePolicy", "CacheStore", "ContentCodings", "Forwarding", "Identity", "Hashing", "Telemetry", "Locking",
                "TakeOver",
            ]),
        room(
            "Sharing",
            [
                "CachePolicy", "CacheStore", "CHash", "ContentCodings", "CSystem", "Descriptors", "Engine", "Fleet", "Hashing", "HTTPCore",
                "Locking",
                "Reactor",
                "ResponseCache", logging,
            ]),
        room("Reactor", ["CSystem", "Descriptors", "Locking"]),
        room("HTTP2", ["CNGHTTP2"]),
        room("Engine", ["CHiredis", "CTLS", "CSystem", "Descriptors", "Reactor"]),
        room("FaultInjection", ["HTTPCore", "CachePolicy"]),
        room(
            "Upstream",
            ["Figures", "HTTPCore", "HTTP2", "Reactor", "FaultInjection", "Locking", "CLibcurl", "CSystem", "Descriptors", "CTLS"]),
        room("Downstream", ["Addresses", "Figures", "HTTPCore", "HTTP2", "Reactor", "CSystem", "CTLS", "Descriptors", "Locking"]),
        room("Telemetry", ["Figures", "CSystem", "Descriptors", "Locking"]),
        room("Decisions", ["HTTPCore", "CachePolicy", "Forwarding", "Upstream"]),
        room("Explanation", ["Addresses", "HTTPCore", "JSON", "CachePolicy", "Decisions", "Forwarding", "Upstream", "Telemetry"]),
        room("StatusPage"),
        room(
            "Tracing",
            [
                "HTTPCore", "JSON", "CachePolicy", "Decisions", "Explanation", "Upstream", "Telemetry", "Locking", "CLibcurl",
            ]),
        room("Coordination", ["Addresses", "HTTPCore", "Decisions", "Upstream", "Telemetry", "Locking", logging]),
        room("Examination", ["HTTPCore", "JSON", "ContentCodings", "CachePolicy", "Forwarding", "Hashing"]),
        room(
            "Sending",
            [
                "HTTPCore", "ContentCodings", "CachePolicy", "Figures", "Forwarding", "ResponseCache", "Explanation", "Downstream",
                "Reactor", "Telemetry", "Hashing",
            ]),
        room(
            "Administration",
            [
                "Addresses", "Archives", "Figures", "HTTPCore", "JSON", "CachePolicy", "ResponseCache", "Explanation", "FaultInjection",
                "StatusPage",
                "Upstream",
                "Telemetry", "Locking",
            ],
            resources: [.embedInCode("openapi.json")]),
        room(
            "ReverseProxy",
            [
                "Addresses", "HTTPCore", "CachePolicy", "Identity", "ResponseCache", "Decisions", "Explanation", "Examination",
                "Sending",
                "Coordination", "Figures",
                "Forwarding", "FaultInjection", "Reactor", "Upstream", "Downstream", "Telemetry", "Hashing", "Locking", "Administration",
                "TakeOver", "Tracing", "Sharing", logging,
            ]),
        room(
            "Server",
            [
                "Addresses", "ReverseProxy", "Administration", "Descriptors", "Coordination", "Examination", "Explanation",
                "FaultInjection", "Figures",
                "ContentCodings", "Forwarding",
                "ResponseCache",
                "CachePolicy",
                "Downstream", "Upstream", "Reactor", "Telemetry", "HTTPCore", "JSON", "Locking", "CacheStore", "CSystem", "TakeOver",
                "Tracing", "Sharing", "Fleet", "Engine",
                logging,
            ]),
        room("Settings", ["CYAML", "JSON", "WellKnownNames"]),
        .executableTarget(
            name: "cistern",
            dependencies: [
                "Addresses", "Server", "Administration", "Archives", "ContentCodings", "ReverseProxy", "FaultInjection", "Settings",
                "HTTPCore", "JSON",
                "CachePolicy",
                "CacheStore", "CLibcurl", "Forwarding", "Identity",
                "Reactor",
                "Upstream",
                "Downstream",
                "Telemetry", "Tracing", "Sharing", "Engine", "ResponseCache", "CSystem", "Descriptors", "Locking", logging, arguments,
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
                "CNGHTTP2", "CSystem", "CTestTLS", "CTestTokens", "Reactor", "Administration", "Server", "ReverseProxy", "CachePolicy",
                "ContentCodings", "Descriptors", "Downstream", "HTTP2",
                "CacheStore", "Upstream", "Locking", "Telemetry", "JSON",
                logging,
            ],
            path: "Tests/TestSupport", swiftSettings: strict),
        tests("TestSupportTests", ["TestSupport"]),
        tests("TakeOverTests", ["TakeOver"]),
        tests("FleetTests", ["CachePolicy", "Coordination", "Decisions", "Fleet", "HTTPCore", "Locking", "TestSupport", "Upstream"]),
        tests(
            "SharingTests",
            [
                "Sharing", "Addresses", "Administration", "CacheStore", "ContentCodings", "Downstream", "Engine", "Fleet", "Forwarding",
                "Locking", "Reactor",
                "ResponseCache",
                "ReverseProxy", "Server", "TestSupport", "Upstream", logging,
            ]),
        tests("ReactorTests", ["Reactor", "CSystem", "Descriptors", "Locking", "TestSupport"]),
        tests("HTTPCoreTests", ["HTTPCore", "TestSupport"]),
        tests("HTTP2Tests", ["HTTP2", "TestSupport"]),
        tests("EngineTests", ["Engine", "CacheStore", "CSystem", "Descriptors", "Locking", "Reactor", "TestSupport"]),
        tests("AddressesTests", ["Addresses", "HTTPCore"]),
        tests("IdentityTests", ["Identity", "CachePolicy", "CacheStore", "HTTPCore", "Locking", "TestSupport"]),
        tests("StatusPageTests", ["StatusPage", "Explanation", "Telemetry"]),
        tests("ArchivesTests", ["Archives", "CachePolicy", "HTTPCore", "JSON"]),
        tests("JSONTests", ["JSON", "HTTPCore", "TestSupport"]),
        tests("CachePolicyTests", ["CachePolicy", "HTTPCore", "JSON", "TestSupport", "CInstructions", structuredFields]),
        tests("DecisionsTests", ["Decisions", "CachePolicy", "Forwarding", "HTTPCore", "Upstream"]),
        tests("ForwardingTests", ["Forwarding", "HTTPCore"]),
        tests("FaultInjectionTests", ["FaultInjection"]),
        tests("CacheStoreTests", ["CacheStore", "CSystem", "Locking", "TestSupport"]),
        tests("ResponseCacheTests", ["ResponseCache", "CachePolicy", "CacheStore", "HTTPCore", "Identity", "JSON", "TestSupport"]),
        tests(
            "CoordinationTests",
            ["CachePolicy", "Coordination", "Decisions", "HTTPCore", "Locking", "Telemetry", "TestSupport", "Upstream", logging]),
        tests(
            "ExaminationTests",
            ["Examination", "CachePolicy", "ContentCodings", "Forwarding", "Hashing", "HTTPCore", "JSON", "TestSupport"]),
        tests(
            "SendingTests",
            ["Sending", "CachePolicy", "CacheStore", "Downstream", "Explanation", "HTTPCore", "ResponseCache", "Telemetry", "TestSupport"]),
        tests("SettingsTests", ["JSON", "Settings"]),
        tests(
            "CommandTests",
            [
                "cistern", "TestSupport", "Addresses", "Administration", "ReverseProxy", "CachePolicy", "CacheStore", "Settings",
                "Upstream", "CSystem", "Downstream", "Decisions", "Explanation", "Forwarding", "JSON", "ResponseCache", "TakeOver", logging,
            ]),
        tests("UpstreamTests", ["Upstream", "Figures", "HTTPCore", "HTTP2", "Reactor", "Locking", "TestSupport"]),
        tests(
            "DownstreamTests",
            ["Addresses", "Downstream", "Figures", "HTTPCore", "Reactor", "Locking", "CSystem", "Descriptors", "TestSupport"]),
        tests(
            "TracingTests",
            ["Tracing", "CachePolicy", "Decisions", "Explanation", "HTTPCore", "JSON", "Locking", "Telemetry", "TestSupport", "Upstream"]),
        tests("TelemetryTests", ["Telemetry", "CacheStore", "Figures", "TestSupport"]),
        tests(
            "ReverseProxyTests",
            [
                "Engine", "Sharing", "Addresses", "HTTP2", "ReverseProxy", "Server", "Descriptors", "Administration", "TestSupport",
                "Decisions", "Explanation", "Figures",
                "Forwarding",
                "Reactor",
                "Downstream",
                "CacheStore",
                "CachePolicy",
                "ResponseCache", "HTTPCore", "JSON",
                "ContentCodings", "Upstream", "Telemetry", "Tracing", "Settings", "Locking", "Hashing", logging,
            ]),
    ],
    swiftLanguageModes: [.v6]
)

// Properties of code that parses untrusted bytes (Tests/Fuzz): the tests replay known inputs, and `make fuzz` builds the fuzzer.
let fuzzed: [Target.Dependency] = [
    "Addresses", "HTTPCore", "JSON", "ContentCodings", "CachePolicy", "CacheStore", "ResponseCache", "Archives", "Administration",
    "Upstream",
    "Downstream",
    "Engine",
    "HTTP2",
    "ReverseProxy",
    "Settings",
    "CHash",
    "CSystem",
    "CTLS",
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

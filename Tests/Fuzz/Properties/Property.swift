// Properties that must hold for any bytes from outside. The fuzzer (Tests/Fuzz/Driver) calls them with generated inputs, the tests
// (Tests/Fuzz/Replay) with the inputs in Tests/Fuzz/Corpus. A trap is a violation too.

/// A violated property, as a sentence.
struct Violation: Error, CustomStringConvertible {
    let description: String
}

/// The raw value names the folder of the corpus and the argument of `make fuzz TARGET=`.
enum Property: String, CaseIterable, Sendable {
    case request, response, json, fields, cookies, keys, stored, recovery, codings, multipart, graphql, yaml, archive, administration, http2
    case handshake, proxy, addresses, replies

    func check(_ bytes: [UInt8]) throws(Violation) {
        switch self {
        case .request: try RequestProperty.check(bytes)
        case .response: try ResponseProperty.check(bytes)
        case .json: try JSONProperty.check(bytes)
        case .fields: try FieldsProperty.check(bytes)
        case .cookies: try CookiesProperty.check(bytes)
        case .keys: try KeysProperty.check(bytes)
        case .stored: try StoredProperty.check(bytes)
        case .recovery: try RecoveryProperty.check(bytes)
        case .codings: try CodingsProperty.check(bytes)
        case .multipart: try MultipartProperty.check(bytes)
        case .graphql: try GraphQLProperty.check(bytes)
        case .yaml: try YAMLProperty.check(bytes)
        case .archive: try ArchiveProperty.check(bytes)
        case .administration: try AdministrationProperty.check(bytes)
        case .http2: try HTTP2Property.check(bytes)
        case .handshake: try HandshakeProperty.check(bytes)
        case .proxy: try ProxyHeaderProperty.check(bytes)
        case .addresses: try AddressesProperty.check(bytes)
        case .replies: try RepliesProperty.check(bytes)
        }
    }
}

func expect(_ holds: Bool, _ sentence: @autoclosure () -> String) throws(Violation) {
    if !holds { throw Violation(description: sentence()) }
}

/// Positions at which an input is split in two: all positions of a short input, some of a long one, depending on its length.
func splits(of count: Int) -> StrideThrough<Int> {
    let step = max(1, count / 16)
    return stride(from: count % step, through: count, by: step)
}

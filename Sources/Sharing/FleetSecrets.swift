// What all nodes of a fleet know and nobody else: by it they find each other's records, read them, and agree on whose they are. Whoever owns the engine
// can neither read nor forge nor swap what lies there, and its keys tell nothing.

import CHash

/// One secret, as the keys that are made of it: each is good for one thing only.
struct FleetSecret: Sendable {
    private let nameKey: [UInt8]
    private let credentialKey: [UInt8]
    fileprivate let sealKey: [UInt8]
    /// Names the key to everybody and tells nothing about it: hexadecimal digits.
    let id: [UInt8]
    static let idBytes = 8

    /// - Parameter text: of any length; its entropy is the operator's matter, its length is checked when settings are read.
    init(_ text: [UInt8]) {
        let root = Self.hash(text, key: [], bytes: 32)
        func key(_ purpose: String) -> [UInt8] { Self.hash(Array("cistern fleet: \(purpose)".utf8), key: root, bytes: 32) }
        (nameKey, credentialKey, sealKey) = (key("names"), key("credentials"), key("seal"))
        id = Self.hash([], key: key("id"), bytes: Self.idBytes / 2).flatMap { byte in
            [byte >> 4, byte & 15].map { $0 + ($0 < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10) }
        }
    }

    /// Keyed BLAKE2b.
    private static func hash(_ message: [UInt8], key: [UInt8], bytes: Int) -> [UInt8] {
        var out: [UInt8] = []
        out.append(bytes) { crypto_generichash($0, bytes, message, UInt64(message.count), key.isEmpty ? nil : key, key.count) }
        return out
    }

    /// 16 bytes that stand for a stored key in the engine, and tell nothing about it.
    func name(of key: [UInt8]) -> [UInt8] { Self.hash(key, key: nameKey, bytes: 16) }

    /// 16 bytes that stand for credentials, on all nodes the same.
    func partition(of credentials: [UInt8]) -> [UInt8] { Self.hash(credentials, key: credentialKey, bytes: 16) }

    // MARK: Sealing (XChaCha20-Poly1305)

    static let nonceBytes = Int(crypto_aead_xchacha20poly1305_ietf_NPUBBYTES)
    fileprivate static let tagBytes = Int(crypto_aead_xchacha20poly1305_ietf_ABYTES)

    /// What a seal adds.
    static let sealBytes = nonceBytes + tagBytes

    /// - Parameter place: where it is to lie: anywhere else it does not open.
    func seal(_ plain: [UInt8], at place: [UInt8]) -> [UInt8] {
        var sealed: [UInt8] = []
        sealed.reserveCapacity(Self.sealBytes + plain.count)
        var sealer = FleetSealer(self)
        sealer.appendSealed(to: &sealed, at: place[...]) { $0 += plain }
        return sealed
    }

    /// - Returns: nil where something else stands before it, or where it was made by another secret, for another place, or changed.
    func open(_ sealed: [UInt8], at place: ArraySlice<UInt8>, behind prefix: [UInt8] = []) -> [UInt8]? {
        let plainCount = sealed.count - Self.sealBytes - prefix.count
        guard plainCount >= 0, sealed.starts(with: prefix) else { return nil }
        var isTrue = false
        // Memory of its own also for nothing: the count of the empty array is everybody's.
        let plain = [UInt8](unsafeUninitializedCapacity: max(1, plainCount)) { buffer, count in
            place.withUnsafeBufferPointer { place in
                sealed.withUnsafeBufferPointer { bytes in
                    guard let start = bytes.baseAddress else { return }
                    let from = start + prefix.count
                    isTrue =
                        crypto_aead_xchacha20poly1305_ietf_decrypt(
                            buffer.baseAddress, nil, nil, from + Self.nonceBytes, UInt64(plainCount + Self.tagBytes), place.baseAddress,
                            UInt64(place.count), from, sealKey) == 0
                }
            }
            count = isTrue ? plainCount : 0
        }
        return isTrue ? plain : nil
    }
}

extension [UInt8] {
    /// - Parameter write: writes so many bytes, all of them.
    fileprivate mutating func append(_ count: Int, write: (UnsafeMutablePointer<UInt8>) -> Void) {
        append(addingCapacity: count) { output in
            output.withUnsafeMutableBufferPointer { buffer, written in
                guard let start = buffer.baseAddress else { return }
                write(start)
                written = count
            }
        }
    }
}

/// Seals by one secret, many times. Its nonces have 16 bytes by chance, which are this sealer's, and a count; so the key of XChaCha20's first step
/// (HChaCha20, draft-irtf-cfrg-xchacha §2.3) is made once, and nothing by chance is asked for again.
struct FleetSealer: ~Copyable {
    private let start: [UInt8]
    private let key: [UInt8]
    private var count: UInt64 = 0

    private static let startBytes = Int(crypto_core_hchacha20_INPUTBYTES)

    init(_ secret: FleetSecret) {
        var start: [UInt8] = []
        start.append(Self.startBytes) { randombytes_buf($0, Self.startBytes) }
        var key: [UInt8] = []
        key.append(Int(crypto_core_hchacha20_OUTPUTBYTES)) { _ = crypto_core_hchacha20($0, start, secret.sealKey, nil) }
        (self.start, self.key) = (start, key)
    }

    /// Appends something sealed, which is made where it is to lie.
    /// - Parameters:
    ///   - place: where it is to lie in the engine: anywhere else it does not open.
    ///   - append: appends it in clear.
    mutating func appendSealed(to bytes: inout [UInt8], at place: ArraySlice<UInt8>, _ append: (inout [UInt8]) -> Void) {
        // The rest of the nonce as the second step has it: four bytes that are 0 stand before it.
        let nonce = (UInt32(0), UInt32(truncatingIfNeeded: count).littleEndian, UInt32(truncatingIfNeeded: count >> 32).littleEndian)
        count += 1
        bytes += start
        withUnsafeBytes(of: nonce) { bytes.append(contentsOf: $0[4...]) }
        let textStart = bytes.count
        append(&bytes)
        let plainCount = bytes.count - textStart
        // Behind it comes what proves that it is whole.
        for _ in 0..<FleetSecret.tagBytes { bytes.append(0) }
        bytes.withUnsafeMutableBufferPointer { bytes in
            guard let text = bytes.baseAddress.map({ $0 + textStart }) else { return }
            place.withUnsafeBufferPointer { place in
                withUnsafeBytes(of: nonce) { nonce in
                    guard let nonce = nonce.bindMemory(to: UInt8.self).baseAddress else { return }
                    _ = crypto_aead_chacha20poly1305_ietf_encrypt(
                        text, nil, text, UInt64(plainCount), place.baseAddress, UInt64(place.count), nil, nonce, key)
                }
            }
        }
    }
}

/// The secrets of a fleet: what is written is written by the first, what was written by any of them is read.
public struct FleetSecrets: Sendable {
    let all: [FleetSecret]

    /// Two while one takes the other's place.
    public static let limit = 2
    /// Shorter ones can be guessed.
    public static let leastBytes = 32

    public enum Problem: Error, Sendable {
        case none
        case tooMany
        /// - Parameter line: from 1.
        case tooShort(line: Int)
    }

    /// - Parameter file: a secret on each line; empty lines, and those that begin with #, say nothing.
    public init(file: [UInt8]) throws(Problem) {
        // Whether that works is known before anything is sealed; later calls do nothing.
        precondition(chash_start() >= 0, "no random numbers can be had")
        var secrets: [FleetSecret] = []
        for (number, line) in file.split(separator: 0x0a, omittingEmptySubsequences: false).enumerated() {
            let blanks: Set<UInt8> = [0x20, 0x09, 0x0d]
            let start = line.drop { blanks.contains($0) }
            guard let last = start.lastIndex(where: { !blanks.contains($0) }), start.first != UInt8(ascii: "#") else { continue }
            let text = Array(start[...last])
            guard text.count >= Self.leastBytes else { throw .tooShort(line: number + 1) }
            secrets.append(FleetSecret(text))
        }
        guard !secrets.isEmpty else { throw .none }
        guard secrets.count <= Self.limit else { throw .tooMany }
        all = secrets
    }

    /// By which what is written is written.
    var first: FleetSecret { all[0] }

    /// How all nodes hash credentials.
    public var partitions: [@Sendable ([UInt8]) -> [UInt8]] { all.map { secret in { secret.partition(of: $0) } } }
}

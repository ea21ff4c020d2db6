// The secrets that only the fleet's nodes have. Keys derived from them name and seal records and hash credentials. An operator of the
// engine cannot read, forge or exchange records.

import CHash
import ResponseCache

/// Keys derived from one secret.
struct FleetSecret: Sendable {
    private let nameKey: [UInt8]
    private let credentialKey: [UInt8]
    fileprivate let sealKey: [UInt8]
    /// Public id of the key: hexadecimal digits.
    let id: [UInt8]
    static let idBytes = 8

    /// - Parameter text: secret of any length; the settings check the length.
    init(_ text: [UInt8]) {
        let root = Self.hash(text, key: [], bytes: 32)
        func key(_ purpose: String) -> [UInt8] { Self.hash(Array("cistern fleet: \(purpose)".utf8), key: root, bytes: 32) }
        (nameKey, credentialKey, sealKey) = (key("names"), key("credentials"), key("seal"))
        id = Self.hash([], key: key("id"), bytes: Self.idBytes / 2).flatMap { byte in
            [byte >> 4, byte & 15].map { $0 + ($0 < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10) }
        }
    }

    static func hash(_ message: [UInt8], key: [UInt8], bytes: Int) -> [UInt8] {
        var out: [UInt8] = []
        out.append(bytes) { crypto_generichash($0, bytes, message, UInt64(message.count), key.isEmpty ? nil : key, key.count) }
        return out
    }

    /// Name of a stored key in the engine: 16 bytes.
    func name(of key: [UInt8]) -> [UInt8] { Self.hash(key, key: nameKey, bytes: 16) }

    /// Returns the hash of credentials, equal on all nodes: 16 bytes.
    func partition(of credentials: [UInt8]) -> [UInt8] { Self.hash(credentials, key: credentialKey, bytes: 16) }

    static let nonceBytes = Int(crypto_aead_xchacha20poly1305_ietf_NPUBBYTES)
    fileprivate static let tagBytes = Int(crypto_aead_xchacha20poly1305_ietf_ABYTES)

    static let sealBytes = nonceBytes + tagBytes

    /// - Parameter context: key in the engine. The sealed value can be opened under this key only.
    func seal(_ plain: [UInt8], at context: [UInt8]) -> [UInt8] {
        var sealed: [UInt8] = []
        sealed.reserveCapacity(Self.sealBytes + plain.count)
        var sealer = FleetSealer(self)
        sealer.appendSealed(to: &sealed, at: context[...]) { $0 += plain }
        return sealed
    }

    /// - Returns: nil if the prefix, the secret or the key in the engine differs, or the value was altered.
    func open(_ sealed: [UInt8], at context: ArraySlice<UInt8>, behind prefix: [UInt8] = []) -> [UInt8]? {
        let plainCount = sealed.count - Self.sealBytes - prefix.count
        guard plainCount >= 0, sealed.starts(with: prefix) else { return nil }
        var isTrue = false
        // Arrays without elements share one buffer, so at least one byte is allocated.
        let plain = [UInt8](unsafeUninitializedCapacity: max(1, plainCount)) { buffer, count in
            context.withUnsafeBufferPointer { context in
                sealed.withUnsafeBufferPointer { bytes in
                    guard let start = bytes.baseAddress else { return }
                    let from = start + prefix.count
                    isTrue =
                        crypto_aead_xchacha20poly1305_ietf_decrypt(
                            buffer.baseAddress, nil, nil, from + Self.nonceBytes, UInt64(plainCount + Self.tagBytes), context.baseAddress,
                            UInt64(context.count), from, sealKey) == 0
                }
            }
            count = isTrue ? plainCount : 0
        }
        return isTrue ? plain : nil
    }
}

extension [UInt8] {
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

/// Seals many values with one secret. A nonce is 16 random bytes of this sealer and a counter, so the first step of XChaCha20 (HChaCha20,
/// draft-irtf-cfrg-xchacha §2.3) runs once.
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

    /// Appends sealed text that `append` writes directly into the buffer.
    /// - Parameter context: key in the engine.
    mutating func appendSealed(to bytes: inout [UInt8], at context: ArraySlice<UInt8>, _ append: (inout [UInt8]) -> Void) {
        // Rest of the nonce for the second step, after four zero bytes.
        let nonce = (UInt32(0), UInt32(truncatingIfNeeded: count).littleEndian, UInt32(truncatingIfNeeded: count >> 32).littleEndian)
        count += 1
        bytes += start
        withUnsafeBytes(of: nonce) { bytes.append(contentsOf: $0[4...]) }
        let textStart = bytes.count
        append(&bytes)
        let plainCount = bytes.count - textStart
        // Reserves space for the tag.
        for _ in 0..<FleetSecret.tagBytes { bytes.append(0) }
        bytes.withUnsafeMutableBufferPointer { bytes in
            guard let text = bytes.baseAddress.map({ $0 + textStart }) else { return }
            context.withUnsafeBufferPointer { context in
                withUnsafeBytes(of: nonce) { nonce in
                    guard let nonce = nonce.bindMemory(to: UInt8.self).baseAddress else { return }
                    _ = crypto_aead_chacha20poly1305_ietf_encrypt(
                        text, nil, text, UInt64(plainCount), context.baseAddress, UInt64(context.count), nil, nonce, key)
                }
            }
        }
    }
}

/// The secrets of a fleet. The first one seals; each of them opens.
public struct FleetSecrets: Sendable {
    let all: [FleetSecret]

    public static let limit = 2
    public static let leastBytes = 32

    public enum Problem: Error, Sendable {
        case none
        case tooMany
        case tooShort(line: Int)
    }

    /// - Parameter file: one secret per line; empty lines and comments that begin with # are ignored.
    public init(file: [UInt8]) throws(Problem) {
        // The first call initializes the library; later calls do nothing.
        precondition(chash_start() >= 0, "no source of random numbers is available")
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

    var first: FleetSecret { all[0] }

    /// Seals credentials of purged users for the log, and for the file of pending purges.
    var sealing: FleetSealing {
        let context = Array("purged user".utf8)
        return FleetSealing(
            seal: { [first] in first.seal($0, at: context) },
            open: { [all] sealed in all.lazy.compactMap { $0.open(sealed, at: context[...]) }.first })
    }

    var partitions: [CredentialHash] { all.map { secret in { secret.partition(of: $0) } } }
}

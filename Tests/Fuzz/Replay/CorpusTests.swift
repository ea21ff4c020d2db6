// Replays the corpora of the fuzzer. Each input once extended the coverage of a property, or violated it.

import Glibc
import Testing

@Suite("Properties that hold for any bytes from outside")
struct CorpusTests {
    @Test("each kept input", arguments: Property.allCases)
    func corpus(_ property: Property) throws {
        let inputs = try Self.inputs(of: property)
        #expect(!inputs.isEmpty)
        for (name, bytes) in inputs {
            do throws(Violation) {
                try property.check(bytes)
            } catch {
                Issue.record("\(property.rawValue)/\(name): \(error)")
            }
        }
    }

    /// Simple inputs that the fuzzer finds at once. They cover properties that have no corpus yet.
    @Test("no bytes, one byte, and each byte many times", arguments: Property.allCases)
    func plainInputs(_ property: Property) throws {
        try property.check([])
        for byte in stride(from: UInt8(0), through: 0xff, by: 5) {
            try property.check([byte])
            try property.check([UInt8](repeating: byte, count: 300))
        }
    }

    private static func inputs(of property: Property) throws -> [(name: String, bytes: [UInt8])] {
        var folder = #filePath.split(separator: "/").dropLast(2)
        folder += ["Corpus", Substring(property.rawValue)]
        let path = "/" + folder.joined(separator: "/")
        let handle = try #require(opendir(path))
        defer { closedir(handle) }
        var names: [String] = []
        while let entry = readdir(handle) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return try names.sorted().map { ($0, try content(of: path + "/" + $0)) }
    }

    private static func content(of path: String) throws -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        var (bytes, piece) = ([UInt8](), [UInt8](repeating: 0, count: 1 << 16))
        while case let count = read(descriptor, &piece, piece.count), count > 0 { bytes += piece[..<count] }
        return bytes
    }
}

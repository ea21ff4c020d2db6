// Reads and writes files of the repository.

import Glibc

enum TextFile {
    static func read(_ path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Compares a file with generated text, or writes it if CISTERN_WRITE_SETTINGS is set.
    static func isCurrent(_ path: String, _ text: String) -> Bool {
        guard getenv("CISTERN_WRITE_SETTINGS") != nil else { return read(path) == text }
        guard let file = fopen(path, "w") else { return false }
        return fputs(text, file) >= 0 && fclose(file) == 0
    }
}

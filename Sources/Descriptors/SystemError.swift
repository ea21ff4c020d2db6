// The operating system's words for why a call failed. Whoever reports a file that cannot be used names its path and these words.

import Glibc

public enum SystemError {
    /// For example "Permission denied".
    /// - Parameter code: of the last call by default.
    public static func words(_ code: Int32 = errno) -> String { String(cString: strerror(code)) }

    /// For example "/etc/key.pem cannot be read: Permission denied".
    public static func words(_ path: String, cannotBe done: String = "read", _ code: Int32 = errno) -> String {
        "\(path) cannot be \(done): \(words(code))"
    }

    /// Why the file at this path cannot be read; nil if it can be. It is not opened.
    public static func whyUnreadable(_ path: String) -> String? {
        access(path, R_OK) == 0 ? nil : words(path)
    }
}

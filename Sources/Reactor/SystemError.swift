// The operating system's text for a failed call. Messages about a file name its path and this text.

import Glibc

public enum SystemError {
    /// For example "Permission denied".
    /// - Parameter code: errno; by default of the last call.
    public static func words(_ code: Int32 = errno) -> String { String(cString: strerror(code)) }

    /// For example "/etc/key.pem cannot be read: Permission denied".
    public static func words(_ path: String, cannotBe done: String = "read", _ code: Int32 = errno) -> String {
        "\(path) cannot be \(done): \(words(code))"
    }

    /// Returns why the file at this path cannot be read; nil if it is readable. Does not open the file.
    public static func whyUnreadable(_ path: String) -> String? {
        access(path, R_OK) == 0 ? nil : words(path)
    }
}

// Versions of the loaded libraries, which may be newer than those at build time.

import CLibcurl
import CTLS

public enum LibraryVersions {
    /// Names and versions, read once.
    public static let all: [(name: String, version: String)] = [
        ("swift", "\(_SwiftStdlibVersion.current)"), ("libcurl", String(cString: cistern_curl_version())),
        ("openssl", String(cString: ctls_library_version())),
    ]
}

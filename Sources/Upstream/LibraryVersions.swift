// The versions of the libraries that the program runs with, which may be newer than those it was built with.

import CLibcurl
import CTLS

public enum LibraryVersions {
    /// Names and versions, read once.
    public static let all: [(name: String, version: String)] = [
        ("swift", "\(_SwiftStdlibVersion.current)"), ("libcurl", String(cString: cistern_curl_version())),
        ("openssl", String(cString: ctls_library_version())),
    ]
}

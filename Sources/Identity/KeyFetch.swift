// Fetches a key set with libcurl, on a separate thread, every few minutes for all requests. No data of a request is sent. Redirects are not
// followed, because the operator has configured the location of the keys.

import CLibcurl
import Glibc

enum KeyFetch {
    /// Why the keys could not be fetched, as text for the operator.
    struct Failure: Error { let sentence: String }

    private static let timeoutMilliseconds = 10_000
    /// Initialized once. libcurl is thread-safe afterwards.
    private static let isReady = curl_global_init(cistern_global_all()) == CURLE_OK

    private final class Received {
        var bytes: [UInt8] = []
    }

    /// Fetches the keys. Blocks.
    /// - Parameter authorities: path of a file with trusted certificates, used instead of the system's; nil for the system's.
    static func get(_ url: String, authorities: String?) throws(Failure) -> [UInt8] {
        let words = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
        words.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        defer { words.deallocate() }
        guard isReady, let handle = curl_easy_init() else { throw Failure(sentence: "cannot initialize libcurl") }
        defer { curl_easy_cleanup(handle) }
        let received = Received()
        setUp(handle, url, received)
        _ = cistern_easy_set_pointer(handle, CURLOPT_ERRORBUFFER, words)
        if let authorities { cistern_easy_trust(handle, authorities) }
        let result = withExtendedLifetime(received) { curl_easy_perform(handle) }
        guard result == CURLE_OK else { throw Failure(sentence: String(cString: cistern_easy_words(result, words))) }
        var status = 0
        _ = cistern_easy_get_long(handle, CURLINFO_RESPONSE_CODE, &status)
        guard status == 200 else { throw Failure(sentence: "the response has status \(status)") }
        return received.bytes
    }

    private static func setUp(_ handle: UnsafeMutableRawPointer, _ url: String, _ received: Received) {
        cistern_easy_prepare(handle, url)
        _ = cistern_easy_set_long(handle, CURLOPT_TIMEOUT_MS, timeoutMilliseconds)
        _ = cistern_easy_set_pointer(handle, CURLOPT_WRITEDATA, Unmanaged.passUnretained(received).toOpaque())
        _ = cistern_easy_set_write(handle) { bytes, _, count, user in
            guard let bytes, let user else { return 0 }
            let received = Unmanaged<Received>.fromOpaque(user).takeUnretainedValue()
            // Returning fewer bytes than were passed aborts the transfer.
            guard received.bytes.count + count <= KeySet.byteLimit else { return 0 }
            received.bytes += UnsafeRawBufferPointer(start: bytes, count: count)
            return count
        }
    }
}

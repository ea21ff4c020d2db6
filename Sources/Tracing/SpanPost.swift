// Posts batches to the endpoint with libcurl, over a persistent connection. Blocks. Redirects and proxies of the environment are ignored,
// because the operator has configured the endpoint.

import CLibcurl
import Glibc
import JSON

/// Used on its exporter's queue only.
final class SpanPost {
    private let handle: UnsafeMutableRawPointer?
    private let fields: UnsafeMutablePointer<curl_slist>?
    private let received = Received()
    /// libcurl's text for the last failure.
    private let words = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

    private static let timeoutMilliseconds = 10_000
    /// Maximum size of a response in bytes.
    private static let limitBytes = 64 << 10
    /// Initialized once. libcurl is thread-safe afterwards.
    private static let isReady = curl_global_init(cistern_global_all()) == CURLE_OK

    private final class Received {
        var bytes: [UInt8] = []
        var isTooLong = false
    }

    init(_ url: String) {
        handle = Self.isReady ? curl_easy_init() : nil
        // Without `Expect: 100-continue`, which would delay a batch.
        let type = curl_slist_append(nil, "Content-Type: application/json")
        fields = curl_slist_append(type, "Expect:")
        words.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        guard let handle else { return }
        cistern_easy_prepare(handle, url)
        _ = cistern_easy_set_pointer(handle, CURLOPT_ERRORBUFFER, words)
        _ = cistern_easy_set_long(handle, CURLOPT_POST, 1)
        _ = cistern_easy_set_pointer(handle, CURLOPT_HTTPHEADER, fields)
        _ = cistern_easy_set_pointer(handle, CURLOPT_WRITEDATA, Unmanaged.passUnretained(received).toOpaque())
        _ = cistern_easy_set_write(handle) { bytes, _, count, user in
            guard let bytes, let user else { return 0 }
            let received = Unmanaged<Received>.fromOpaque(user).takeUnretainedValue()
            // Only the number of rejected spans is needed, so longer responses are not read.
            received.isTooLong = received.bytes.count + count > SpanPost.limitBytes
            if received.isTooLong { return 0 }
            received.bytes += UnsafeRawBufferPointer(start: bytes, count: count)
            return count
        }
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(fields)
        words.deallocate()
    }

    /// - Parameter patience: maximum time in milliseconds; nil for the default.
    func send(_ body: [UInt8], patience: Int? = nil) -> PostResult {
        guard let handle else { return .failed("cannot initialize libcurl") }
        (received.bytes, received.isTooLong) = ([], false)
        _ = cistern_easy_set_long(handle, CURLOPT_TIMEOUT_MS, min(patience ?? Self.timeoutMilliseconds, Self.timeoutMilliseconds))
        _ = cistern_easy_set_long(handle, CURLOPT_POSTFIELDSIZE, body.count)
        words.pointee = 0
        var body = body
        let result = body.withUnsafeMutableBytes { bytes in
            _ = cistern_easy_set_pointer(handle, CURLOPT_POSTFIELDS, bytes.baseAddress)
            return withExtendedLifetime(received) { curl_easy_perform(handle) }
        }
        guard result == CURLE_OK || received.isTooLong else { return .failed(String(cString: cistern_easy_words(result, words))) }
        var (status, retryAfter): (Int, curl_off_t) = (0, 0)
        _ = cistern_easy_get_long(handle, CURLINFO_RESPONSE_CODE, &status)
        _ = cistern_easy_get_offset(handle, CURLINFO_RETRY_AFTER, &retryAfter)
        return .answered(
            status: status, retryAfter: retryAfter > 0 ? Int(retryAfter) : nil, rejected: PostResult.rejected(received.bytes))
    }
}

extension PostResult {
    /// Returns the number of rejected spans in an ExportTraceServiceResponse.
    static func rejected(_ response: [UInt8]) -> Int {
        guard let count = JSONValue(response)?["partialSuccess"]?["rejectedSpans"] else { return 0 }
        return count.integer ?? count.string.flatMap { Int($0) } ?? 0
    }
}

// Maps libcurl's result codes and errnos to the error types of RFC 9209 §2.3.

import CLibcurl
import Glibc
import HTTPCore

extension UpstreamError {
    /// The error of a failed connection attempt.
    /// - Parameters:
    ///   - tunnel: status of the forward proxy's response to CONNECT; 0 if there was no request or no response.
    ///   - number: errno of the last failed connect(2) or socket(2); 0 if none failed.
    init(connecting code: CURLcode, tunnel: Int, errno number: Int32) {
        if tunnel != 0, tunnel / 100 != 2 {
            self = .tunnelRefused(Status(rawValue: UInt16(clamping: tunnel)))
            return
        }
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: self = .dnsError
        case CURLE_OPERATION_TIMEDOUT: self = .connectionTimeout
        case CURLE_FAILED_INIT, CURLE_UNKNOWN_OPTION, CURLE_OUT_OF_MEMORY: self = .proxyInternalError
        // Refused, unreachable, or ended during the negotiation with a forward proxy.
        default: self.init(connecting: number)
        }
    }

    /// The error for the errno of connect(2) or socket(2).
    init(connecting number: Int32) {
        switch number {
        case 0, ECONNREFUSED: self = .connectionRefused
        case EHOSTUNREACH, ENETUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL: self.init(.destinationIPUnroutable, .system(number))
        case ETIMEDOUT: self.init(.connectionTimeout, .system(number))
        case EMFILE, ENFILE, ENOBUFS, ENOMEM: self.init(.proxyInternalError, .system(number))
        default: self.init(.connectionRefused, .system(number))
        }
    }
}

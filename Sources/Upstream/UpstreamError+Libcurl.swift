// libcurl's result codes in the words of RFC 9209 §2.3.

import CLibcurl
import HTTPCore

extension UpstreamError {
    /// How making a connection failed.
    /// - Parameter tunnel: what the forward proxy responded to CONNECT; 0 where it was not asked, or has not responded.
    init(connecting code: CURLcode, tunnel: Int) {
        if tunnel != 0, tunnel / 100 != 2 {
            self = .tunnelRefused(Status(rawValue: UInt16(clamping: tunnel)))
            return
        }
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: self = .dnsError
        case CURLE_OPERATION_TIMEDOUT: self = .connectionTimeout
        case CURLE_FAILED_INIT, CURLE_UNKNOWN_OPTION, CURLE_OUT_OF_MEMORY: self = .proxyInternalError
        // Refused, unreachable, or cut while a forward proxy was being talked to.
        default: self = .connectionRefused
        }
    }
}

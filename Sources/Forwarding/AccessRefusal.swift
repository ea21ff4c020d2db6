// Requests that are refused for where they come from, whom they ask for, or how many of them there are.

import HTTPCore

package enum AccessRefusal: String, Sendable, CaseIterable {
    /// By an `allow` or `deny` list.
    case address = "client_address"
    /// `forwarding.names` does not have the host, or a whole URI names another place than this.
    case misdirected = "name_not_served"
    /// `limits.requests_per_address`.
    case requestsPerAddress = "requests_per_address"

    package var status: Status {
        switch self {
        case .address: 403
        case .misdirected: 421
        case .requestsPerAddress: 429
        }
    }

    package var sentence: String {
        switch self {
        case .address: "Clients at this address may not ask for this here."
        case .misdirected: "This host is not served here."
        case .requestsPerAddress: "Too many requests of this address are under way."
        }
    }

    func response(accept: [UInt8]?) -> OwnResponse {
        var response = OwnResponse(status: status, sentence: sentence, accept: accept)
        // What is under way ends soon.
        if self == .requestsPerAddress { response.fieldLines = Array("Retry-After: 1\r\n".utf8) }
        return response
    }
}

// Decides whether a long response is forwarded while it is collected for the store. Pure; `Fetch` carries out the decision.

import CachePolicy
import Forwarding
import HTTPCore

extension CollectedFor {
    /// Whether a long response is forwarded while it is collected. It is held if its end determines what the client receives: a stored
    /// response instead, a 304, or content without a coding that the client does not accept.
    /// - Parameters:
    ///   - mayRescue: whether the request's stored response may be served instead.
    ///   - hasOtherRescue: whether a response without credentials, or a superseded one, may be served instead. Called only if needed.
    public func isForwarded(_ response: ResponseHead, to request: RequestHead, mayRescue: Bool, _ hasOtherRescue: () -> Bool) -> Bool {
        guard self == .store, !mayRescue, !request.contains(.ifNoneMatch), !request.contains(.ifModifiedSince),
            let coding = ContentCoding(response.fields), coding == .identity || AcceptedCoding.accepts(coding, in: request.fields)
        else { return false }
        return !hasOtherRescue()
    }
}

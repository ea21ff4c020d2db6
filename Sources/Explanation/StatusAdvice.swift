// The setting that stores a response that was not stored because of its status. It depends on the status.

import CachePolicy
import HTTPCore

extension WhyAdvice {
    /// Advice for a response that was not stored because of its status.
    /// - Parameter status: nil if unknown.
    init?(ofNotStored status: UInt16?) {
        guard let status else {
            self.init(
                "cache.store",
                "any: stores 300, 301, 308, 404, 405, 410, 414, and other statuses with a lifetime; never 400, 401, 408 or 429")
            return
        }
        switch CacheableStatus.storedByAny(Status(rawValue: status)) {
        case .always: self.init("cache.store", "any: responses with status \(status) are stored too")
        case .withLifetime where (400...499).contains(status):
            self.init("cache.negative", "is how long they are stored if cache.negative_statuses contains \(status)")
        case .withLifetime:
            self.init("cache.store", "any: responses with status \(status) are stored if they have a lifetime (Cache-Control or Expires)")
        case .never: return nil
        }
    }
}

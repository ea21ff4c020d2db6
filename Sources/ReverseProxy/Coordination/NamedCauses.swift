// The causes of one outage that the log has named. Each is named once.

import Upstream

struct NamedCauses {
    /// Maximum number of causes of one outage. It bounds the lines about an upstream that alternates between many causes.
    static let limit = 8

    private var causes: [FailureCause] = []

    func mayAdd(_ cause: FailureCause) -> Bool { causes.count < Self.limit && !causes.contains(cause) }

    mutating func add(_ cause: FailureCause) { causes.append(cause) }
}

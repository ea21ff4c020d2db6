// The waits of a loop, as the metrics page counts them.

import Reactor
import Telemetry

extension Histogram {
    /// In microseconds, the bounds powers of two.
    init(_ waits: LoopWaits) {
        let last = LoopWaits.buckets - 1
        self.init(bounds: (0..<last).map { Int64(1) << Int64($0) }, counts: (0...last).map { waits.counts[$0] }, sum: waits.sum)
    }
}

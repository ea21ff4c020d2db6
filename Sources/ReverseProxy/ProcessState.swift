// What all APIs and all shards of one process have in common: each has a reference to it, and all of it guards itself.

import Coordination
import Downstream
import FaultInjection
import HTTPCore
import Locking
import Logging
import ResponseCache
import Telemetry

package final class ProcessState: Sendable {
    /// Of the process. What an API has for itself is in its own (`SharedFlowState`).
    package let settings: ProxySettings
    package let logger: Logger
    package let accessLog: AccessLog?
    /// nil where nothing is recorded.
    package let recorder: (any ExchangeRecorder)?
    package let connections: ConnectionBudget
    /// nil where one address may have any number.
    let requestsPerAddress: AddressBudget?
    package let content: ContentBudget
    package let collapsed = CollapsedRequests()
    let sentRequests = SentRequests()
    /// What Via and Forwarded tell this process by.
    let instance: String
    /// Changed by the administrator; each shard has a copy.
    private let faultTable = Mutex(FaultTable())

    package init(_ settings: ProxySettings, logger: Logger, accessLog: AccessLog?, recorder: (any ExchangeRecorder)? = nil) {
        self.settings = settings
        self.recorder = recorder
        self.logger = logger
        self.accessLog = accessLog
        connections = ConnectionBudget(settings.downstream)
        requestsPerAddress = AddressBudget(limit: settings.access.requestsPerAddress, trustedProxies: settings.downstream.trustedProxies)
        content = ContentBudget(settings.downstream)
        var generator = SystemRandomNumberGenerator()
        instance = String(generator.next() as UInt64, radix: 36)
    }

    package var faults: FaultTable { faultTable.withLock { $0 } }

    /// Returns what `change` returns, and the faults before and after it.
    package func changeFaults<Result>(
        _ change: (inout FaultTable) -> Result
    ) -> (result: Result, before: FaultTable, after: FaultTable) {
        faultTable.withLock { faults in
            let before = faults
            let result = change(&faults)
            return (result, before, faults)
        }
    }

    func logRefusal(_ refusal: RequestRejection.Kind, client: RequestClient) {
        logger.debug("refused a request of \(String(decoding: client.text, as: UTF8.self)): \(refusal.rawValue)")
    }
}

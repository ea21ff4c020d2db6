// A fleet without an engine: its metrics and pages exist, but nothing is shared.

import Engine
import Sharing

extension FleetSettings {
    static var ofNobody: FleetSettings? {
        let secret = [UInt8](repeating: UInt8(ascii: "a"), count: FleetSecrets.leastBytes)
        return (try? FleetSecrets(file: secret)).map {
            FleetSettings(engine: EngineSettings(servers: [.unix("/nowhere/at/all")]), name: "nobody", secrets: $0)
        }
    }
}

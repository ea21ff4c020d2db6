// Tests of the unit for systemd.

import Testing

@Suite("The unit for systemd")
struct UnitFileTests {
    @Test("the commented lines for ports below 1024 have their effect where they are")
    func ports() throws {
        let text = try Document("Configuration/systemd/cistern.service").text
        func values(_ name: String, isPermitted: Bool) -> [String] {
            // An empty value resets a list (systemd.exec).
            text.split(separator: "\n").reduce(into: []) { values, line in
                let line = isPermitted && line.hasPrefix("#   ") ? line.dropFirst(4) : line
                guard line.hasPrefix(name + "=") else { return }
                let value = String(line.dropFirst(name.count + 1))
                values = value.isEmpty ? [] : values + [value]
            }
        }
        for isPermitted in [false, true] {
            let capabilities = isPermitted ? ["CAP_NET_BIND_SERVICE"] : []
            #expect(values("CapabilityBoundingSet", isPermitted: isPermitted) == capabilities)
            #expect(values("AmbientCapabilities", isPermitted: isPermitted) == capabilities)
            // The last line applies.
            #expect(values("PrivateUsers", isPermitted: isPermitted).last == (isPermitted ? "no" : "yes"))
        }
    }
}

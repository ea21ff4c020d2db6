// One number for all settings, by which nodes and times are compared. Only what differs from its default counts, so that a new version with more
// settings has the same number for the same file.

extension CisternSettings {
    /// 48 bits, which a metric's number holds exactly. Equal where all settings are equal, but for user information and arguments in URLs: those may
    /// be secrets, and whoever sees the number could try what fits.
    public var hash: UInt64 {
        var hash = StableHash()
        add(to: &hash)
        return hash.value & 0xffff_ffff_ffff
    }

    private func add(to hash: inout StableHash) {
        hash.add(SettingsTable.all, of: self, besides: CisternSettings())
        for route in routes {
            hash.add("routes")
            hash.add(RouteTable.all, of: route, besides: Route(self))
        }
        for api in apis {
            hash.add("apis")
            hash.add(APITable.all, of: api, besides: API(CisternSettings()))
            for route in api.settings.routes {
                hash.add("apis.routes")
                hash.add(RouteTable.all, of: route, besides: Route(api.settings))
            }
        }
    }
}

/// FNV-1a: the same in each process and on each machine.
private struct StableHash {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ text: String) {
        // No text has a zero: where one ends counts.
        for byte in text.utf8 + [0] { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }

    mutating func add<Root>(_ table: [Setting<Root>], of settings: Root, besides defaults: Root) {
        for setting in table {
            let text = setting.text(in: settings)
            guard text != setting.text(in: defaults) else { continue }
            add(setting.path)
            add(HiddenSecrets.withoutSecrets(text))
        }
    }
}

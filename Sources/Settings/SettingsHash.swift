// Hash of all settings, to compare nodes and points in time. Only values that differ from their default count, so an update that adds
// settings keeps the hash.

extension CisternSettings {
    /// Hash of all settings: 48 bits, which a metric's value holds exactly. User information and query strings of URLs, and values of
    /// request fields, do not count. They may be secrets, which a reader of the hash could find by trial.
    public var hash: UInt64 {
        var hash = StableHash()
        hash.add(SettingsTable.all, of: self, besides: CisternSettings())
        for route in routes {
            hash.add("routes")
            hash.add(RouteTable.all, of: route, besides: otherRoute.forMember)
        }
        for api in apis {
            hash.add("apis")
            hash.add(APITable.all, of: api, besides: API(CisternSettings()))
            for route in api.settings.routes {
                hash.add("apis.routes")
                hash.add(RouteTable.all, of: route, besides: api.settings.otherRoute.forMember)
            }
        }
        return hash.value & 0xffff_ffff_ffff
    }
}

/// FNV-1a, which does not depend on the process or the machine.
private struct StableHash {
    private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func add(_ text: String) {
        // A zero byte ends each text, so the boundary between two texts counts.
        for byte in text.utf8 + [0] { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }

    mutating func add<Root>(_ table: [Setting<Root>], of settings: Root, besides defaults: Root) {
        for setting in table {
            let text = setting.text(in: settings)
            guard text != setting.text(in: defaults) else { continue }
            add(setting.path)
            add(HiddenSecrets.withoutSecrets(setting.textWithoutFieldValues(in: settings)))
        }
    }
}

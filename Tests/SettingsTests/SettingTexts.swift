// Values of settings as text, and valid values that differ from given ones.

import Settings

extension CisternSettings {
    /// The value of a setting as text.
    subscript(path: String) -> String? { SettingsTable.all.first { $0.path == path }?.text(in: self) }
}

extension CisternSettings.Route {
    subscript(path: String) -> String? { RouteTable.all.first { $0.path == path }?.text(in: self) }
}

extension Setting {
    /// Another value than that in `settings`, as text. Another number gives another value where the setting permits more than two.
    func another(than settings: Root, _ number: Int = 0) -> SettingText {
        let text = text(in: settings)
        switch binding.kind {
        case .text: return .one("another\(number)")
        case .choice(let words):
            let others = words.filter { $0 != text }
            return .one(others[number % others.count])
        case .list: return .many([holdsFields ? "X-Another\(number): value" : "another\(number)"])
        case .flag: return .one(text == "true" ? "false" : "true")
        case .number(let unit, let range):
            let word = unit.format(range.lowerBound + number)
            return .one(word == text ? unit.format(range.upperBound) : word)
        case .items: return .one("127.0.0.1:\(1_000 + number)")
        }
    }
}

// A setting: its name, its help, and the property of a module's settings that holds its value.

import JSON

/// A setting of the group `Root`: of the whole configuration, a module, a route, an API or an item of a list.
public struct Setting<Root>: Sendable {
    /// Name in the configuration file: components joined by dots.
    public let path: String
    public let binding: Binding
    public let help: String
    /// Whether a change takes effect at the next start only.
    public var needsRestart = false
    /// What to do instead of using a retired setting; nil for all others.
    public var replacement: String?
    /// Path of the setting to which the value of a retired setting is transferred.
    public var successor: String?
    /// Whether a list may be written as changes, `+name` and `-name`, to the value that otherwise applies.
    public var changes: ListChanges?
    /// Whether the list consists of fields, `Name: value`. The file may also contain them as a group. The values may be secrets.
    public var holdsFields = false

    /// `CISTERN_` followed by the path in capitals, with underscores instead of dots.
    public var environment: String { Self.environment(of: path) }

    static func environment(of path: String) -> String { "CISTERN_" + path.uppercased().split(separator: ".").joined(separator: "_") }

    /// The setting as a setting of `Whole`, of which `Root` is a part.
    func within<Whole>(_ part: WritableKeyPath<Whole, Root>, path: String? = nil, help: String? = nil) -> Setting<Whole> {
        Setting<Whole>(
            path: path ?? self.path, binding: binding.within(part), help: help ?? self.help, needsRestart: needsRestart,
            replacement: replacement, successor: successor, changes: changes, holdsFields: holdsFields)
    }
}

/// What values a setting permits.
public enum SettingKind: Sendable {
    case text
    case choice([String])
    case list
    case flag
    case number(NumberUnit, ClosedRange<Int>)
    /// A list of words or of mappings with settings.
    /// - Parameter schema: JSON Schema of the list.
    case items(schema: @Sendable () -> [JSONValue.Member])
}

extension Setting {
    /// Reads and writes the value in `Root`. `@unchecked Sendable` because the closures capture key paths without state only, which the
    /// standard library does not declare as `Sendable`.
    public struct Binding: @unchecked Sendable {
        public let kind: SettingKind
        fileprivate let get: (Root) -> SettingText
        /// Returns nil, or the mistake as a clause that follows the setting's name.
        fileprivate let set: (SettingText, inout Root) -> String?
        fileprivate let copy: (_ other: Root, inout Root) -> Void
        /// Reads items from the file; nil if the value is not a list of items. See `SettingItem.read`.
        fileprivate var readItems: (([YAMLNode], inout Root, _ name: String, _ file: String) -> [ConfigurationMistake])?

        fileprivate func within<Whole>(_ part: WritableKeyPath<Whole, Root>) -> Setting<Whole>.Binding {
            .init(
                kind: kind, get: { [get] in get($0[keyPath: part]) }, set: { [set] in set($0, &$1[keyPath: part]) },
                copy: { [copy] in copy($0[keyPath: part], &$1[keyPath: part]) },
                readItems: readItems.map { read in { read($0, &$1[keyPath: part], $2, $3) } })
        }

        private init(
            kind: SettingKind, get: @escaping (Root) -> SettingText, set: @escaping (SettingText, inout Root) -> String?,
            copy: @escaping (Root, inout Root) -> Void,
            readItems: (([YAMLNode], inout Root, String, String) -> [ConfigurationMistake])? = nil
        ) {
            (self.kind, self.get, self.set, self.copy, self.readItems) = (kind, get, set, copy, readItems)
        }

        /// - Parameters:
        ///   - write: returns the value's text.
        ///   - parse: returns the value; throws the mistake as a clause that follows the setting's name.
        private init<Value>(
            _ path: WritableKeyPath<Root, Value>, _ kind: SettingKind, write: @escaping (Value) -> SettingText,
            parse: @escaping (SettingText) throws(ValueMistake) -> Value
        ) {
            self.init(
                kind: kind, get: { write($0[keyPath: path]) },
                set: { text, root in
                    do throws(ValueMistake) { root[keyPath: path] = try parse(text) } catch { return error.clause }
                    return nil
                }, copy: { $1[keyPath: path] = $0[keyPath: path] })
        }
    }
}

extension Setting.Binding {
    // MARK: Words

    static func text(_ path: WritableKeyPath<Root, String>) -> Self { word(path, .text, write: { $0 }, parse: { $0 }) }

    /// Text of which the empty one is nil.
    static func text(_ path: WritableKeyPath<Root, String?>) -> Self {
        word(path, .text, write: { $0 ?? "" }, parse: { $0.isEmpty ? nil : $0 })
    }

    static func flag(_ path: WritableKeyPath<Root, Bool>) -> Self {
        word(
            path, .flag, write: { String($0) },
            parse: { word throws(ValueMistake) in
                let flags = ["true": true, "yes": true, "on": true, "false": false, "no": false, "off": false]
                guard let flag = flags[word.lowercased()] else { throw ValueMistake(clause: "must be true or false, not \"\(word)\"") }
                return flag
            })
    }

    /// One of the cases, by its raw value.
    static func choice<Choice: RawRepresentable<String> & CaseIterable & Equatable>(_ path: WritableKeyPath<Root, Choice>) -> Self {
        choice(path, Choice.allCases.map { ($0.rawValue, $0) })
    }

    /// One of the cases, by its raw value. nil is the empty word.
    /// - Parameter takesEmpty: whether the empty word is permitted, rather than only the default.
    static func choice<Choice: RawRepresentable<String> & CaseIterable & Equatable>(
        _ path: WritableKeyPath<Root, Choice?>, takesEmpty: Bool = false
    ) -> Self {
        choice(path, (takesEmpty ? [("", nil)] : []) + Choice.allCases.map { ($0.rawValue, $0) })
    }

    /// One of several values, each with its word. The empty word stands for a default that has none.
    static func choice<Value: Equatable>(_ path: WritableKeyPath<Root, Value>, _ words: [(word: String, value: Value)]) -> Self {
        word(
            path, .choice(words.map(\.word)), write: { value in words.first { $0.value == value }?.word ?? "" },
            parse: { word throws(ValueMistake) in
                guard let value = words.first(where: { $0.word == word })?.value else {
                    throw ValueMistake(clause: "must be one of \(words.map(\.word).joined(separator: ", ")), not \"\(word)\"")
                }
                return value
            })
    }

    // MARK: Numbers

    static func count<Number: BinaryInteger>(_ path: WritableKeyPath<Root, Number>, _ range: ClosedRange<Int>) -> Self {
        number(path, .count, range, write: { Int($0) }, parse: { Number($0) })
    }

    static func size(_ path: WritableKeyPath<Root, Int>, _ range: ClosedRange<Int>) -> Self {
        number(path, .size, range, write: { $0 }, parse: { $0 })
    }

    /// A size of which nil, the default, has no text.
    static func size(_ path: WritableKeyPath<Root, Int?>, _ range: ClosedRange<Int>) -> Self {
        number(path, .size, range, write: { $0 }, parse: { $0 })
    }

    /// A duration in milliseconds.
    static func duration<Number: BinaryInteger>(_ path: WritableKeyPath<Root, Number>, _ range: ClosedRange<Int>) -> Self {
        number(path, .duration, range, write: { Int($0) }, parse: { Number($0) })
    }

    /// - Parameter range: in milliseconds.
    static func duration(_ path: WritableKeyPath<Root, Duration>, _ range: ClosedRange<Int>) -> Self {
        number(
            path, .duration, range, write: { Int($0.components.seconds * 1_000 + $0.components.attoseconds / 1_000_000_000_000_000) },
            parse: { .milliseconds($0) })
    }

    /// A fraction from 0 to 1, stored in millionths.
    static func share(_ path: WritableKeyPath<Root, Int>) -> Self {
        number(path, .share, 0...Share.whole, write: { $0 }, parse: { $0 })
    }

    private static func number<Value>(
        _ path: WritableKeyPath<Root, Value>, _ unit: NumberUnit, _ range: ClosedRange<Int>, write: @escaping (Value) -> Int?,
        parse: @escaping (Int) -> Value
    ) -> Self {
        word(
            path, .number(unit, range), write: { write($0).map(unit.format) ?? "" },
            parse: { word throws(ValueMistake) in
                guard let value = unit.parse(word) else {
                    throw ValueMistake(clause: "must be \(unit.rawValue), not \"\(word)\"\(unit.hint(word))")
                }
                guard range.contains(value) else {
                    let (least, most) = (unit.format(range.lowerBound), unit.format(range.upperBound))
                    throw ValueMistake(clause: "must be between \(least) and \(most), not \(word)")
                }
                return parse(value)
            })
    }

    private static func word<Value>(
        _ path: WritableKeyPath<Root, Value>, _ kind: SettingKind, write: @escaping (Value) -> String,
        parse: @escaping (String) throws(ValueMistake) -> Value
    ) -> Self {
        Self(
            path, kind, write: { .one(write($0)) },
            parse: { text throws(ValueMistake) in
                guard case .one(let word) = text else { throw ValueMistake(clause: "must be one value, not a list") }
                return try parse(word)
            })
    }

    // MARK: Lists

    static func list(_ path: WritableKeyPath<Root, [String]>) -> Self { Self(path, .list, write: { .many($0) }, parse: { $0.words }) }

    static func list(_ path: WritableKeyPath<Root, [[UInt8]]>) -> Self {
        Self(path, .list, write: { .many($0.map { String(decoding: $0, as: UTF8.self) }) }, parse: { $0.words.map { Array($0.utf8) } })
    }

    static func items<Item: SettingItem>(_ path: WritableKeyPath<Root, [Item]>) -> Self {
        var binding = Self(
            path, .items(schema: { SettingsSchema.items(Item.table) }), write: { .many($0.map(\.text)) },
            parse: { $0.words.map { Item(shortForm: $0) } })
        binding.readItems = { nodes, root, name, file in
            let (items, mistakes) = Item.read(nodes, name: name, file: file)
            root[keyPath: path] = items
            return mistakes
        }
        return binding
    }
}

extension Setting {
    /// Stores the value. Returns nil, or the mistake as a clause that follows the setting's name.
    public func apply(_ text: SettingText, to settings: inout Root) -> String? {
        guard let changes else { return binding.set(text, &settings) }
        var list = binding.get(settings).words
        return changes.apply(text.words, to: &list) ?? binding.set(.many(list), &settings)
    }

    /// Stores the items of a list from the file. Returns their mistakes; nil if the value is not a list of items.
    func apply(_ items: [YAMLNode], to settings: inout Root, name: String, file: String) -> [ConfigurationMistake]? {
        binding.readItems?(items, &settings, name, file)
    }

    func copy(from other: Root, to settings: inout Root) { binding.copy(other, &settings) }

    /// The value as in the configuration file.
    public func text(in settings: Root) -> String { text(in: settings, word: { $0.isEmpty ? "\"\"" : $0 }, listed: { "\"\($0)\"" }) }

    /// The value as in the configuration file, without values of fields.
    func textWithoutFieldValues(in settings: Root) -> String {
        guard holdsFields, case .many(let fields) = binding.get(settings) else { return text(in: settings) }
        return fields.map(UpstreamFieldText.shown).joined(separator: ", ")
    }

    /// The value as YAML, without secrets.
    func yaml(in settings: Root) -> String {
        if holdsFields { return text(in: settings, word: Self.quoted) { Self.quoted(UpstreamFieldText.shown($0)) } }
        return switch binding.kind {
        case .text, .list: text(in: settings, word: Self.quoted, listed: Self.quoted)
        default: HiddenSecrets.hide(in: text(in: settings))
        }
    }

    private func text(in settings: Root, word: (String) -> String, listed: (String) -> String) -> String {
        switch binding.get(settings) {
        case .one(let text): return word(text)
        case .many(let words):
            if case .items = binding.kind { return "[" + words.joined(separator: ", ") + "]" }
            return "[" + words.map(listed).joined(separator: ", ") + "]"
        }
    }

    private static func quoted(_ word: String) -> String {
        let text = HiddenSecrets.hide(in: word)
        return "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
}

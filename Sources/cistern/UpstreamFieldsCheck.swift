// Checks `upstream.fields`, and reads the values that its files and variables contain. No message contains a value.

import Forwarding
import HTTPCore
import Reactor
import Settings

struct UpstreamFieldsCheck {
    /// Maximum number of fields of an API or a route, with those that it inherits.
    static let limit = 32

    private let variables = Environment.all()
    private var mistakes: [(path: String, sentence: String)] = []

    static func check(_ reader: inout SettingsReader) {
        var check = UpstreamFieldsCheck()
        reader.change { settings in
            check.check(&settings.otherRoute, "upstream.", "upstream.")
            check.check(&settings.routes, "", "")
            for index in settings.apis.indices {
                let name = settings.apis[index].name
                check.check(&settings.apis[index].settings.otherRoute, "apis.\(name).", "API \(name): ")
                check.check(&settings.apis[index].settings.routes, "apis.\(name).", "API \(name): ")
            }
        }
        for (path, sentence) in check.mistakes { reader.add(about: path, sentence) }
    }

    private mutating func check(_ routes: inout [CisternSettings.Route], _ path: String, _ subject: String) {
        for index in routes.indices {
            let name = routes[index].name
            check(&routes[index], "\(path)routes.\(name).", "\(subject)route \(name): ")
        }
    }

    /// - Parameters:
    ///   - path: prefix of the settings' paths, to find their lines.
    ///   - subject: prefix of messages.
    private mutating func check(_ route: inout CisternSettings.Route, _ path: String, _ subject: String) {
        let own = route.upstreamFields.own
        var names: [[UInt8]] = []
        for (number, text) in own.set.enumerated() {
            guard let field = UpstreamFieldText(text) else {
                mistakes.append((path + "fields.set", "\(subject)fields.set: entry \(number + 1) is not of the form Name: value"))
                continue
            }
            if let problem = problem(ofName: field.name, number, among: &names) ?? load(field, into: &route.upstreamFields) {
                mistakes.append((path + "fields.set", "\(subject)fields.set: \(problem)"))
            }
        }
        for (number, name) in own.remove.enumerated() {
            if let problem = problem(ofName: name, number, among: &names) {
                mistakes.append((path + "fields.remove", "\(subject)fields.remove: \(problem)"))
            }
        }
        if names.count > Self.limit {
            mistakes.append((path + "fields.set", "\(subject)fields: \(names.count) names; the maximum is \(Self.limit)"))
        }
        // Mistakes in these fields are reported where the settings contain them.
        for field in route.upstreamFields.inherited.flatMap(\.set).compactMap({ UpstreamFieldText($0) }) {
            _ = load(field, into: &route.upstreamFields)
        }
    }

    private func problem(ofName text: String, _ number: Int, among names: inout [[UInt8]]) -> String? {
        let name = Array(text.utf8)
        guard UpstreamFieldRules.isName(name) else { return "the name of entry \(number + 1) is not a field name" }
        if UpstreamFieldRules.isManaged(name) { return "Cistern manages \(text) itself: remove it" }
        let isGiven = UpstreamFieldRules.contains(name.span, in: names)
        names.append(name.map(\.asFieldNameByte))
        return isGiven ? "\(text) is given twice: remove one" : nil
    }

    /// Checks the value, and stores it if the settings contain only a reference.
    /// - Returns: the mistake.
    private func load(_ field: UpstreamFieldText, into fields: inout CisternSettings.UpstreamFields) -> String? {
        let value: [UInt8]
        switch field.source {
        case .literal(let text):
            if text.isEmpty { return "\(field.name) has no value; use fields.remove to remove a field" }
            value = text
        case .variable(let name):
            guard let text = variables[name] else { return "\(field.name): the environment has no variable \(name)" }
            if text.isEmpty { return "\(field.name): the variable \(name) is empty" }
            value = Array(text.utf8)
        case .file(let path):
            guard let text = FileContent.read(path, limit: UpstreamFieldRules.valueLimitBytes + 3, .regular) else {
                return "\(field.name): \(SystemError.words(path))"
            }
            value = Array(text.reversed().drop { $0 == 0x0a || $0 == 0x0d }.reversed())
            if value.isEmpty { return "\(field.name): \(path) is empty" }
        }
        guard UpstreamFieldRules.isValue(value) else {
            return "\(field.name): the value must have at most \(UpstreamFieldRules.valueLimitBytes) bytes, no line end or other control "
                + "character, and no space at its ends"
        }
        if Self.authenticatesConnections(field.name, value) {
            return "\(field.name): Negotiate, NTLM and similar schemes authenticate a connection, which clients cannot share"
        }
        if let reference = field.reference { fields.loaded[reference] = value }
        return nil
    }

    private static func authenticatesConnections(_ name: String, _ value: [UInt8]) -> Bool {
        var fields = Fields()
        fields.append(name: Array(name.utf8).span, value: value.span)
        return ConnectionAuthentication.isUsed(by: fields)
    }
}

extension UpstreamFieldRules {
    /// - Parameter settings: checked settings.
    init(_ settings: CisternSettings.UpstreamFields) {
        self.init()
        for changes in settings.all {
            for name in changes.remove { remove(Array(name.utf8)) }
            for field in changes.set.compactMap({ UpstreamFieldText($0) }) {
                guard let value = settings.value(of: field) else { preconditionFailure("settings were used unchecked") }
                set(Array(field.name.utf8), to: value, isFixed: field.reference == nil)
            }
        }
    }
}

extension CisternSettings.UpstreamFields {
    fileprivate func value(of field: UpstreamFieldText) -> [UInt8]? {
        if case .literal(let value) = field.source { return value }
        return field.reference.flatMap { loaded[$0] }
    }

    /// Files with values.
    var files: [String] {
        all.flatMap(\.set).compactMap { text in
            if case .file(let path)? = UpstreamFieldText(text)?.source { path } else { nil }
        }
    }
}

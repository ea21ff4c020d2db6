// Checks the settings of notifications, and converts them to targets with the contents of their files. No message contains these contents.

import Glibc
import Notifications
import Reactor
import Settings

enum NotifyCheck {
    static func check(_ reader: inout SettingsReader) {
        let settings = reader.settings
        var mistakes: [String] = []
        if settings.notify.count > NotificationTarget.limit {
            mistakes.append("at most \(NotificationTarget.limit) targets are possible, not \(settings.notify.count)")
        }
        var names: Set<String> = []
        for one in settings.notify {
            if !names.insert(one.shownName).inserted { mistakes.append("two targets have the name \(one.shownName): set a name for each") }
            mistakes += (problems(one) + filterProblems(one, settings)).map { "\(one.shownName): \($0)" }
        }
        for mistake in mistakes { reader.add(about: "notify", "notify: \(mistake)") }
    }

    private static func problems(_ one: CisternSettings.Notify) -> [String] {
        var problems: [String] = []
        if !one.name.isEmpty, !one.name.isWord { problems.append("name must be letters, digits, - and _, not \"\(one.name)\"") }
        if one.urlFile.isEmpty == one.command.isEmpty { problems.append("set either url_file or command") }
        if !one.command.isEmpty {
            let files = [("token_file", one.tokenFile), ("secret_file", one.secretFile), ("ca_file", one.caFile)]
            problems += files.filter { !$0.1.isEmpty }.map { "\($0.0) is for webhooks only, not for a command" }
            return problems + programProblems(one.command[0])
        }
        if one.urlFile.contains("://") {
            problems.append("url_file must be the path of a file that contains the URL, because the URL may be a secret")
        } else if !one.urlFile.isEmpty {
            problems += fileProblems("url_file", one.urlFile, "one http or https URL without user and fragment", webhookURL)
        }
        problems += fileProblems("token_file", one.tokenFile, "one word", word)
        problems += fileProblems("secret_file", one.secretFile, "one word of at least \(AdminToken.shortest) characters", AdminToken.parse)
        if !one.caFile.isEmpty, let reason = SystemError.whyUnreadable(one.caFile) { problems.append("ca_file: \(reason)") }
        return problems
    }

    private static func programProblems(_ program: String) -> [String] {
        guard program.hasPrefix("/") else { return ["command must begin with the absolute path of a program, not \"\(program)\""] }
        return access(program, X_OK) == 0 ? [] : ["command: \(SystemError.words(program, cannotBe: "run"))"]
    }

    private static func fileProblems<Value>(_ name: String, _ file: String, _ form: String, _ parse: ([UInt8]) -> Value?) -> [String] {
        guard !file.isEmpty else { return [] }
        guard let text = FileContent.read(file) else { return ["\(name): \(SystemError.words(file))"] }
        return parse(text) == nil ? ["\(name): \(file) must contain \(form)"] : []
    }

    private static func filterProblems(_ one: CisternSettings.Notify, _ settings: CisternSettings) -> [String] {
        let known = NotificationEvent.selectable.map(\.rawValue)
        let events = one.events.filter { !known.contains($0) }.map { "event \"\($0)\" is none of \(known.joined(separator: ", "))" }
        let names = settings.apis.map(\.name)
        let apis = one.apis.filter { !names.contains($0) }.map { name in
            "api \"\(name)\" is none of the apis\(names.isEmpty ? ": there is only one, without a name" : " " + names.joined(separator: ", "))"
        }
        return events + apis
    }

    /// The only word of a file.
    static func word(_ text: [UInt8]) -> [UInt8]? {
        let lines = text.split { $0 == 0x0a || $0 == 0x0d }
        guard lines.count == 1, let word = lines.first, word.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else { return nil }
        return Array(word)
    }

    fileprivate static func webhookURL(_ text: [UInt8]) -> String? {
        guard let bytes = word(text) else { return nil }
        let url = String(decoding: bytes, as: UTF8.self)
        // The base URL is checked as that of an upstream; a query is possible too.
        guard !url.contains("#"), UpstreamURL(String(url.prefix { $0 != "?" })) != nil else { return nil }
        return url
    }
}

extension NotificationTarget {
    /// - Parameter settings: checked settings.
    init(_ settings: CisternSettings.Notify) {
        if settings.command.isEmpty {
            var webhook = Webhook(url: FileContent.read(settings.urlFile).flatMap(NotifyCheck.webhookURL) ?? "")
            webhook.format = settings.format
            webhook.token = FileContent.read(settings.tokenFile).flatMap(NotifyCheck.word) ?? []
            webhook.secret = FileContent.read(settings.secretFile).flatMap(AdminToken.parse) ?? []
            webhook.authorities = settings.caFile.isEmpty ? nil : settings.caFile
            self.init(settings.shownName, .webhook(webhook))
        } else {
            self.init(settings.shownName, .command(settings.command))
        }
        if !settings.events.isEmpty { events = Set(settings.events.compactMap { NotificationEvent(rawValue: $0) }) }
        (apis, timeoutMilliseconds, perHour) = (Set(settings.apis), settings.timeout, settings.perHour)
    }
}

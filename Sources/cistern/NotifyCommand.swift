// `cistern notify test`: sends a test notification to the targets of the settings.

import ArgumentParser
import Glibc
import Notifications
import Notifying
import Reactor
import Settings

struct NotifyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notify", abstract: "Test the webhooks and commands that are notified of outages.", subcommands: [Test.self])

    struct Test: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a test notification to each target of the settings, and report the results.",
            discussion: """
                Reads the settings as `cistern check` does, and needs no running Cistern. Each target gets one attempt. The output of a \
                command is shown. Ends with 1 if an attempt fails.

                Examples:
                  cistern notify test --config /etc/cistern/cistern.yaml
                  cistern notify test chat
                """)

        @Argument(help: ArgumentHelp("Name of the target. All targets without it.", valueName: "name"))
        var name: String?

        @OptionGroup var options: SettingsOptions

        func run() throws {
            signal(SIGPIPE, SIG_IGN)
            var options = options
            _ = options.useWorkingDirectory()
            let settings = try options.ofService().checkedReader().settings
            let all = settings.notify.map { NotificationTarget($0) }
            let targets = all.filter { name == nil || $0.name == name }
            guard !targets.isEmpty else {
                let known = all.isEmpty ? "the settings have no notify" : "there are \(all.map(\.name).joined(separator: ", "))"
                StandardError.write("cistern: no target\(name.map { " is called \($0)" } ?? ""): \(known)\n")
                throw ExitCode.failure
            }
            let node = NotifyingNode(name: Notifier.machine)
            var hasFailed = false
            for target in targets {
                let now = SystemTime.shared.wallMilliseconds
                let test = Notification(testFrom: node, id: "test-\(now)", wall: now)
                let trouble = NotificationChannel.deliver(test, to: target, showsOutput: true).trouble
                print("\(target.name): \(trouble.map { "failed: \($0)" } ?? "sent")")
                hasFailed = hasFailed || trouble != nil
            }
            if hasFailed { throw ExitCode.failure }
        }
    }
}

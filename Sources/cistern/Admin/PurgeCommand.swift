// Removes stored responses, or marks them as stale.

import ArgumentParser
import Glibc
import JSON
import Reactor
import ResponseCache
import Settings

struct Purge: AdminCommand {
    static let configuration = CommandConfiguration(
        abstract: "Remove stored responses, or mark them as stale.",
        discussion: """
            Several conditions select the responses that meet all of them. A purge is complete when the command ends, and survives a restart \
            or a crash. With --soft, copies are validated before their next use, and may still be served in a rescue. With --erase, their \
            bytes are also removed from the cache directory when the command ends.

            --user reads a credential, which appears on no command line and in no log. It has at most four lines NAME: VALUE with fields \
            that the app sends, or one line: a token, a cookie NAME=VALUE, or the value of Authorization.

            In a fleet, the exit code says whether the other nodes are notified. 0: the purge is in the fleet's log. 75: Redis does \
            not accept it yet; it is kept, and sent as soon as possible. 1: purge again to notify them. The admin interface responds with \
            202 to the last two, and to the first until a Redis replica has the entry. With --partition, the exit code is 1, because \
            partitions have other IDs on other nodes: use --user. It is also 1 if responses of the user may remain, for the reason in \
            the note.

            Examples:
              cistern purge '/users?page=2'
              cistern purge --prefix /users --soft
              cistern purge --matching '/orders/*/items' --older-than 7d
              cistern purge --user token.txt --erase
              cistern purge --all
            """)

    @Argument(help: "One target: a path with its arguments, in any spelling. Purges all its variants and partitions.")
    var target: String?

    @Option(help: "All targets with this prefix.")
    var prefix: String?

    @Option(help: ArgumentHelp("All paths that match a pattern, as in routes.", valueName: "pattern"))
    var matching: String?

    @Option(help: "All responses with this tag.")
    var tag: String?

    @Option(help: ArgumentHelp("All responses of a user: a file with the credential, or - for standard input.", valueName: "file"))
    var user: String?

    @Option(help: ArgumentHelp("All responses of a partition of this node, as in PARTITION of ls.", valueName: "id"))
    var partition: String?

    @Option(help: ArgumentHelp("All responses that were received or confirmed longer ago, such as 7d.", valueName: "duration"))
    var olderThan: String?

    @Option(help: "One response, by its ID from ls --ids.")
    var id: String?

    @Flag(help: "Everything.")
    var all = false

    @OptionGroup var which: APIOption

    @Flag(help: "Mark the responses as stale instead of removing them.")
    var soft = false

    @Flag(help: "Also remove the bytes of purged and replaced responses from the disk.")
    var erase = false

    @Flag(help: "Print the number of responses that would be purged, and change nothing.")
    var dryRun = false

    @Flag(help: "JSON.")
    var json = false

    @OptionGroup var options: AdminOptions

    func validate() throws {
        let conditions = [target, prefix, matching, tag, user, partition, olderThan].count { $0 != nil }
        guard (id == nil ? 0 : 1) + (all ? 1 : 0) == (conditions == 0 ? 1 : 0) else {
            throw ValidationError("Give --id, or --all, or one or more conditions: a target, --prefix, --matching, --tag, --user, …")
        }
        guard !soft || !erase else { throw ValidationError("--soft and --erase exclude each other: a soft purge keeps the responses.") }
        _ = try seconds()
    }

    /// The age in seconds; nil if there is no such condition.
    private func seconds() throws -> Int? {
        try olderThan.map { text in
            guard let milliseconds = TimeSpan.parse(text), milliseconds >= 1_000 else {
                throw ValidationError("--older-than needs a duration of at least a second, such as 90s, 12h or 7d")
            }
            return milliseconds / 1_000
        }
    }

    func run(_ client: AdminClient) throws {
        let flags = [("all", all), ("soft", soft), ("erase", erase), ("dry_run", dryRun), ("user", user != nil)]
        let arguments =
            [
                ("target", target), ("prefix", prefix), ("matching", matching), ("tag", tag), ("partition", partition), ("id", id),
                ("older_than", try seconds().map(String.init)), which.argument,
            ] + flags.map { ($0, $1 ? "true" : nil) }
        let content = try user.map(Self.credential) ?? []
        // Erasing rewrites files, which takes minutes on a slow disk.
        let response = try client.value("POST", "purge", arguments, content: content, patienceSeconds: erase ? 3_600 : nil)
        if json { StandardOutput.write(response.serialized() + [0x0a]) } else { printResult(response, client) }
        guard response["incomplete"]?.bool != true, response["disk"] == nil else { throw ExitCode.failure }
        guard let nodes = response["nodes"]?.string else { return }
        switch (nodes, response["reason"]?.string) {
        case ("durable", _) where partition != nil, (_, "no_replica") where partition != nil: throw ExitCode.failure
        case ("durable", _), (_, "no_replica"), (_, "not_replicated"): break
        case ("pending", _): throw ExitCode.later
        default: throw ExitCode.failure
        }
    }

    /// Reads a credential from a file, or from standard input for `-`.
    private static func credential(_ file: String) throws -> [UInt8] {
        guard let text = FileContent.read(file == "-" ? "/dev/stdin" : file, limit: UserCredential.limitBytes + 2) else {
            guard errno == EFBIG else { throw AdminFailure(SystemError.words(file)) }
            throw AdminFailure("\(file == "-" ? "standard input" : file): \(UserCredential.Problem.tooLong.rawValue)")
        }
        do throws(UserCredential.Problem) {
            return try UserCredential(text).text
        } catch {
            throw AdminFailure("\(file == "-" ? "standard input" : file): \(error.rawValue)")
        }
    }

    private func printResult(_ response: JSONValue, _ client: AdminClient) {
        let count = response["purged"]?.integer ?? 0
        let hint = count > 0 || all ? "" : ": no stored response matches (see cistern ls)"
        let done = dryRun ? "would be \(soft ? "marked as stale" : "purged")" : soft ? "marked as stale" : "purged"
        print("\(count) \(count == 1 ? "response" : "responses") \(done)\(hint)")
        if response["disk"] != nil {
            print(
                "purged in memory only: the disk rejects writes (cistern status), so the responses may return after a restart; purge again"
            )
        }
        if let note = response["note"]?.string { print("note: \(note)") }
        if let erased = response["erased"] {
            let (files, inUse) = (erased["files"]?.integer ?? 0, erased["in_use"]?.integer ?? 0)
            print("\(erased["bytes"]?.integer ?? 0) bytes erased from \(files) files")
            if inUse > 0 { print("note: responses are still being sent from \(inUse) of them; these bytes are freed when that ends") }
        }
        guard let nodes = response["nodes"]?.string else { return }
        print(
            partition == nil
                ? Self.sentence(nodes, response["reason"]?.string)
                : "other nodes: NOT purged, because the partition has another ID there: use --user")
        // The purge is done, whether or not this query succeeds.
        let share = try? client.value("GET", "share")
        if let note = share.flatMap(Self.secretNote) { print(note) }
    }

    /// A note about a node with another secret, which cannot decrypt this purge and marks all its responses stale instead; nil if there is
    /// none.
    static func secretNote(_ share: JSONValue) -> String? {
        guard let unopened = share["unopened"]?.integer, unopened > 0 else { return nil }
        return
            "note: a node of this fleet has another share.secret_file (cistern share status). It cannot read this purge: all its stored responses count as stale, and may still be served in a rescue"
    }

    /// How far the purge has reached the other nodes.
    private static func sentence(_ nodes: String, _ reason: String?) -> String {
        switch (nodes, reason) {
        case ("durable", _): "other nodes: notified, and a Redis replica has the entry"
        case (_, "no_replica"):
            "other nodes: notified; Redis has no replica, so if it loses its data, only this node can notify them again"
        case (_, "not_replicated"): "other nodes: notified; no Redis replica has the entry yet; this node repeats it until one has it"
        case ("pending", "not_reached"):
            "other nodes: NOT notified yet, because Redis cannot be reached (cistern share status); this node sends the purge as soon as it can"
        case ("pending", let reason):
            "other nodes: NOT notified yet, because Redis rejects the purge (\(reason ?? "unknown")); this node repeats it until Redis accepts it"
        default: "other nodes: NOT notified: too many purges are pending. Purge again once cistern share status shows fewer"
        }
    }
}

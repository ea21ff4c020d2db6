// The screen of `cistern status --watch`: sorting, filter, and clipping to the terminal. Plain values in, text out.

import JSON

enum WatchOrder: String, CaseIterable {
    case requests, rescued, errors, time, name

    /// Descending, except for names.
    func isBefore(_ one: StatsChange.Part, _ other: StatsChange.Part) -> Bool {
        let value: (StatsChange.Part) -> Double
        switch self {
        case .requests: value = { $0.rate }
        case .rescued: value = { $0.rescued }
        case .errors: value = { $0.failed }
        case .time: value = { $0.times?.bound(0.99) ?? -1 }
        case .name: return one.name < other.name
        }
        return value(one) == value(other) ? one.name < other.name : value(one) > value(other)
    }
}

/// The user's choices.
struct WatchView {
    var order = WatchOrder.requests
    /// Substring of names of APIs and routes, in lower case.
    var filter = ""
    var isPaused = false
    /// Whether keys are added to the filter.
    private(set) var isTyping = false

    private static let (interrupt, end, escape, delete, backspace): (UInt8, UInt8, UInt8, UInt8, UInt8) = (0x03, 0x04, 0x1b, 0x7f, 0x08)

    /// - Returns: whether to quit.
    mutating func handleKey(_ key: UInt8) -> Bool {
        switch key {
        case Self.interrupt, Self.end: return true
        case Self.escape: (filter, isTyping) = ("", false)
        case _ where isTyping: type(key)
        case UInt8(ascii: "q"), UInt8(ascii: "Q"): return true
        case UInt8(ascii: "p"), UInt8(ascii: " "): isPaused.toggle()
        case UInt8(ascii: "s"):
            let all = WatchOrder.allCases
            order = all[((all.firstIndex(of: order) ?? 0) + 1) % all.count]
        case UInt8(ascii: "/"): isTyping = true
        default: break
        }
        return false
    }

    private mutating func type(_ key: UInt8) {
        switch key {
        case UInt8(ascii: "\r"), UInt8(ascii: "\n"): isTyping = false
        case Self.delete, Self.backspace: if !filter.isEmpty { filter.removeLast() }
        case 0x20..<0x7f: filter += String(decoding: [key], as: UTF8.self).lowercased()
        default: break
        }
    }

    private func chosen(_ parts: [StatsChange.Part]) -> [StatsChange.Part] {
        parts.filter { filter.isEmpty || $0.name.lowercased().occurrences(of: filter) }.sorted(by: order.isBefore)
    }

    // MARK: Rendering

    /// Renders the screen, clipped to its size.
    /// - Parameter hasColours: whether the state's sentence is coloured.
    func render(_ change: StatsChange, _ now: JSONValue, width: Int, height: Int, hasColours: Bool) -> String {
        let isWell = now["state"]?["level"] == "well"
        let title = "cistern \(now["version"]?.string ?? "")  \(now["time"]?.string?.prefix(19) ?? "")Z  "
        var head = [title + "\(Printable.rounded(change.rate)) requests/s" + (isPaused ? "  PAUSED" : "")]
        head += Self.wrapped(Printable.text(now["state"]?["sentence"]?.string ?? ""), width).map {
            hasColours ? "\u{1b}[1;\(isWell ? 32 : 31)m\($0)\u{1b}[0m" : $0
        }
        var body = [""] + results(change, width) + [""]
        body.append(
            "to clients   \(Printable.bytes(change.storeBytes))/s from the store, \(Printable.bytes(change.upstreamBytes))/s from the upstream"
        )
        body += StatsText.state(now).split(separator: "\n").map(String.init)
        for (title, all) in [("API", change.apis), ("ROUTE", change.routes)] where !all.isEmpty {
            body += [""] + table(title, chosen(all), of: all.count, width)
        }
        let rows = max(1, height - head.count - 1)
        if body.count > rows { body = body.prefix(rows - 1) + ["… \(body.count - rows + 1) more lines"] }
        let lines = head.enumerated().map { $0.offset == 0 ? Self.cut($0.element, width) : $0.element } + body.map { Self.cut($0, width) }
        return lines.map { $0 + "\n" }.joined() + Self.cut(keys, width)
    }

    private func results(_ change: StatsChange, _ width: Int) -> [String] {
        var table = TextTable([("RESULT", false), ("REQUESTS/S", true), ("P50", true), ("P99", true), ("", false)])
        for result in change.results {
            let bar = String(repeating: "█", count: Int((result.rate / max(change.rate, 1e-9) * 30).rounded()))
            table.add([result.name, Printable.rounded(result.rate), result.times.text(0.5), result.times.text(0.99), bar])
        }
        return table.text.split(separator: "\n").map(String.init)
    }

    private func table(_ title: String, _ parts: [StatsChange.Part], of all: Int, _ width: Int) -> [String] {
        guard !parts.isEmpty else { return ["\(title)  none of \(all) has \(filter) in its name"] }
        let isTimed = parts.contains { $0.times != nil }
        let columns = isTimed ? ["P50", "P99"] : ["STATE"]
        var table = TextTable(
            ([title, "REQUESTS/S", "STORE", "RESCUED/S", "ERRORS/S"] + columns).enumerated().map { ($1, $0 > 0) })
        // Width that the other columns leave.
        let most = max(8, width - (isTimed ? 62 : 50))
        for part in parts {
            let share = part.rate > 0 ? Printable.rounded(part.fromStore / part.rate * 100) + "%" : "-"
            let last = isTimed ? [part.times?.text(0.5) ?? "-", part.times?.text(0.99) ?? "-"] : [part.state ?? "-"]
            let name = part.name.count > most ? part.name.prefix(most - 1) + "…" : part.name
            table.add([name, Printable.rounded(part.rate), share, Printable.rounded(part.rescued), Printable.rounded(part.failed)] + last)
        }
        return table.text.split(separator: "\n").map(String.init)
    }

    private var keys: String {
        if isTyping { return "filter: \(filter)_   Enter: done   Esc: none" }
        return "q quit   \(isPaused ? "p go on" : "p pause")   s sort: \(order.rawValue)   / filter\(filter.isEmpty ? "" : ": \(filter)")"
    }

    private static func cut(_ line: String, _ width: Int) -> String { line.count > width ? line.prefix(max(0, width - 1)) + "…" : line }

    /// Wraps at spaces.
    private static func wrapped(_ text: String, _ width: Int) -> [String] {
        var lines = [""]
        for word in text.split(separator: " ") {
            let last = lines[lines.count - 1]
            if last.isEmpty {
                lines[lines.count - 1] = String(word)
            } else if last.count + 1 + word.count <= width {
                lines[lines.count - 1] += " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines.map { cut($0, width) }
    }
}

extension String {
    fileprivate func occurrences(of text: String) -> Bool { Array(utf8).firstRange(of: Array(text.utf8)) != nil }
}

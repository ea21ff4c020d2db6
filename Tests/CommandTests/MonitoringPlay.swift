// A Prometheus server (from Debian) that scrapes real Cisterns with the rules of docker/.

import CacheStore
import Glibc
import JSON
import TestSupport

/// A running Prometheus, which ends on deinitialization.
final class RunningPrometheus {
    static var isInstalled: Bool { TestTools.has("prometheus") && TestTools.has("promtool") }

    struct NoResponse: Error {
        let what: String
    }

    private let temporary = TestTools.temporaryDirectory()
    private let port = TestTools.freePort()
    private var process: pid_t = 0

    /// Returns when Prometheus responds.
    /// - Parameter targets: HOST:PORT with the scheme `http` or `https`.
    init(targets: [(scheme: String, address: String)]) throws {
        try TestTools.copy(Board.folder + "prometheus-rules.yml", to: temporary.path + "/rules.yml")
        let scraped = targets.map { target in
            """
              - job_name: \(target.scheme)
                scheme: \(target.scheme)
                tls_config: {insecure_skip_verify: true}
                static_configs:
                  - {targets: ["\(target.address)"], labels: {job: cistern}}
            """
        }
        try TestTools.write(
            """
            global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
            rule_files: [rules.yml]
            scrape_configs:
            \(scraped.joined(separator: "\n"))

            """, to: temporary.path + "/prometheus.yml")
        process = try TestTools.spawn([
            "prometheus", "--config.file=\(temporary.path)/prometheus.yml", "--storage.tsdb.path=\(temporary.path)/data",
            "--web.listen-address=127.0.0.1:\(port)",
        ])
        guard wait({ (try? TestClient(port: port).get("/-/ready")?.status) == 200 }) else { throw NoResponse(what: "prometheus") }
    }

    deinit {
        guard process > 0 else { return }
        kill(process, SIGKILL)
        waitpid(process, nil, 0)
    }

    /// Polls a condition for up to a minute; returns whether it became true.
    func wait(_ isSo: () throws -> Bool) rethrows -> Bool {
        for _ in 0..<3_000 {
            if try isSo() { return true }
            _ = poll(nil, 0, 20)
        }
        return false
    }

    /// Member `data` of the response of its HTTP API.
    func ask(_ path: String, query: String? = nil) throws -> JSONValue {
        let client = try TestClient(port: port)
        let form = [("Content-Type", "application/x-www-form-urlencoded")]
        let response =
            query.map { client.request("POST", path, form, content: "query=" + Self.coded($0)) } ?? client.get(path)
        guard let response, let data = JSONValue(response.content)?["data"] else {
            throw NoResponse(what: "\(path) \(query ?? ""): \(response?.text ?? "nothing")")
        }
        return data
    }

    /// Current values of an expression, without NaN.
    func values(_ expression: String) throws -> [Double] {
        let result = try ask("/api/v1/query", query: expression)["result"]?.array ?? []
        return result.compactMap { $0["value"]?.array?.last?.string.flatMap(Double.init) }.filter { !$0.isNaN }
    }

    private static func coded(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF")
        return text.utf8.map { "%\(digits[Int($0 >> 4)])\(digits[Int($0 & 15)])" }.joined()
    }
}

/// A rule's expression in Prometheus' notation.
struct RuleExpression {
    /// The sides of all comparisons. They have values even if the comparison is false.
    let compared: [String]

    init(_ text: String) {
        var sides: [[String]] = [[]]
        var words = Self.words(text)[...]
        while let word = words.popFirst() {
            if ["and", "or", "unless"].contains(word) {
                sides.append([])
                if words.first == "on" { words.removeFirst(2) } else if words.first?.hasPrefix("on(") == true { words.removeFirst() }
            } else if ["==", "!=", "<", ">", "<=", ">="].contains(word) {
                sides.append([])
            } else {
                sides[sides.count - 1].append(word)
            }
        }
        compared = sides.map { $0.joined(separator: " ") }.filter { $0.contains(where: \.isLetter) }.map {
            // `absent(x)` is replaced by `x`, which must exist.
            $0.hasPrefix("absent(") ? String($0.dropFirst(7).dropLast()) : $0
        }
    }

    /// Splits at spaces outside brackets.
    private static func words(_ text: String) -> [String] {
        var words: [String] = [""]
        var depth = 0
        for character in text {
            if "({[".contains(character) { depth += 1 }
            if ")}]".contains(character) { depth -= 1 }
            if character == " ", depth == 0 { words.append("") } else { words[words.count - 1].append(character) }
        }
        return words.filter { !$0.isEmpty }
    }
}

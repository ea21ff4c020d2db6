// Tests the structure of the Grafana dashboards of docker/compose.yaml, without Grafana. MonitoringTests evaluates its expressions.

import JSON
import TestSupport
import Testing

/// A dashboard of docker/grafana.
struct Board {
    static let all = ["cistern", "overview"]

    struct Panel {
        let id: Int
        let title: String
        let type: String
        let unit: String?
        let source: String?
        let description: String
        let place: (x: Int, y: Int, width: Int, height: Int)
        /// PromQL expressions with the dashboard's variables.
        let expressions: [String]

        var isRow: Bool { type == "row" }

        init?(_ panel: JSONValue) {
            guard let id = panel["id"]?.integer, let title = panel["title"]?.string, let type = panel["type"]?.string,
                let place = panel["gridPos"], let x = place["x"]?.integer, let y = place["y"]?.integer, let width = place["w"]?.integer,
                let height = place["h"]?.integer
            else { return nil }
            (self.id, self.title, self.type, self.place) = (id, title, type, (x, y, width, height))
            unit = panel["fieldConfig"]?["defaults"]?["unit"]?.string
            source = panel["datasource"]?["uid"]?.string
            description = panel["description"]?.string ?? ""
            expressions = panel["targets"]?.array?.compactMap { $0["expr"]?.string } ?? []
        }

        func overlaps(_ other: Panel) -> Bool {
            place.x < other.place.x + other.place.width && other.place.x < place.x + place.width
                && place.y < other.place.y + other.place.height && other.place.y < place.y + place.height
        }
    }

    let document: JSONValue
    let panels: [Panel]
    /// Variables by name, with the query that lists their values.
    let variables: [(name: String, type: String, query: String)]

    /// - Parameter name: name of its file, without its extension.
    init(_ name: String) throws {
        document = try #require(JSONValue(Array(TestTools.read(Self.folder + "grafana/\(name).json").utf8)))
        panels = try #require(document["panels"]?.array).map { try #require(Panel($0)) }
        variables = try #require(document["templating"]?["list"]?.array).map {
            let query = $0["query"]?.string ?? $0["query"]?["query"]?.string
            return (try #require($0["name"]?.string), try #require($0["type"]?.string), try #require(query))
        }
    }

    static let folder = String(#filePath.dropLast("Tests/CommandTests/DashboardTests.swift".utf8.count)) + "docker/"
}

@Suite("Grafana dashboard")
struct DashboardTests {
    @Test("the dashboard has a Grafana schema version, a fixed uid and a selectable data source", arguments: Board.all)
    func document(name: String) throws {
        let board = try Board(name)
        #expect(board.document["schemaVersion"]?.integer ?? 0 >= 39)
        #expect(board.document["uid"]?.string == (name == "cistern" ? "cistern" : "cistern-\(name)"))
        #expect(board.document["title"]?.string == (name == "cistern" ? "Cistern" : "Cistern \(name)"))
        // Only exports contain these members, about which Grafana then asks.
        #expect(board.document["__inputs"] == nil && board.document["id"] == nil)
        #expect(board.variables.first.map { $0.name == "datasource" && $0.type == "datasource" && $0.query == "prometheus" } == true)
        let others = board.document["templating"]?["list"]?.array?.dropFirst().map { $0["datasource"]?["uid"]?.string } ?? []
        #expect(others == Array(repeating: "${datasource}", count: others.count))
    }

    @Test(
        "each panel has an id, title, unit and description, overlaps no other, and queries the selected data source", arguments: Board.all)
    func panels(name: String) throws {
        let board = try Board(name)
        #expect(Set(board.panels.map(\.id)).count == board.panels.count)
        #expect(board.panels.first?.isRow == true)
        for panel in board.panels {
            #expect(!panel.title.isEmpty && panel.place.x >= 0 && panel.place.x + panel.place.width <= 24, "\(panel.title)")
            for other in board.panels where other.id > panel.id { #expect(!panel.overlaps(other), "\(panel.title), \(other.title)") }
            guard !panel.isRow else { continue }
            #expect(panel.unit?.isEmpty == false && panel.source == "${datasource}" && !panel.expressions.isEmpty, "\(panel.title)")
            #expect(panel.description.hasSuffix("."), "\(panel.title)")
            // Selected instances must hide others.
            for expression in panel.expressions where expression.contains("{") {
                let chosen = expression.occurrences(of: "{job=~\"$job\",instance=~\"$instance\"")
                #expect(chosen == expression.occurrences(of: "{"), "\(panel.title): \(expression)")
            }
        }
    }

    @Test("the dashboard has the expected rows and an age heatmap")
    func rows() throws {
        let board = try Board("cistern")
        let rows = [
            "Health", "APIs", "Routes", "Rescues", "Age of what is served", "Store", "Overload", "Connections and TLS", "Process",
            "Sharing",
        ]
        #expect(board.panels.filter(\.isRow).map(\.title) == rows)
        #expect(board.panels.contains { $0.type == "heatmap" && $0.expressions[0].contains("cistern_served_age_seconds_bucket") })
    }

    @Test("the overview has eight panels, which the dashboard has too, and links to it")
    func overview() throws {
        let (overview, all) = (try Board("overview"), try Board("cistern"))
        let panels = overview.panels.filter { !$0.isRow }
        #expect(panels.count == 8)
        for panel in panels {
            #expect(all.panels.contains { $0.expressions == panel.expressions && $0.unit == panel.unit }, "\(panel.title)")
        }
        #expect(overview.document["links"]?.array?.first?["tags"]?.array?.first == "cistern")
    }

    @Test("compose.yaml mounts the dashboards, their data source and the Prometheus rules")
    func provisioned() throws {
        let compose = try TestTools.read(Board.folder + "compose.yaml")
        for (file, place) in [
            ("prometheus.yml", "/etc/prometheus/prometheus.yml"), ("prometheus-rules.yml", "/etc/prometheus/prometheus-rules.yml"),
            ("grafana/datasource.yaml", "/etc/grafana/provisioning/datasources/datasource.yaml"),
            ("grafana/dashboards.yaml", "/etc/grafana/provisioning/dashboards/dashboards.yaml"),
            ("grafana/cistern.json", "/etc/grafana/dashboards/cistern.json"),
            ("grafana/overview.json", "/etc/grafana/dashboards/overview.json"),
        ] {
            #expect(compose.contains("- ./\(file):\(place):ro\n"), "\(file)")
        }
        #expect(try TestTools.read(Board.folder + "grafana/dashboards.yaml").contains("path: /etc/grafana/dashboards\n"))
        #expect(try TestTools.read(Board.folder + "prometheus.yml").contains("rule_files: [prometheus-rules.yml]"))
    }
}

extension String {
    /// Number of occurrences of a text.
    fileprivate func occurrences(of text: String) -> Int {
        let (own, other) = (Array(utf8), Array(text.utf8))
        guard own.count >= other.count else { return 0 }
        return (0...own.count - other.count).count { own[$0..<$0 + other.count].elementsEqual(other) }
    }
}

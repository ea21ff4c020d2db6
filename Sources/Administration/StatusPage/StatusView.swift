// Contents of the status page as plain values. Numbers and texts are complete; the page only arranges them.

struct StatusView: Sendable {
    enum Level: String, Sendable {
        case well, strained, down

        /// Text for the level, so that colour is not the only indication.
        var label: String {
            switch self {
            case .well: "Healthy"
            case .strained: "Degraded"
            case .down: "Down"
            }
        }
    }

    /// A number with its history of the last five minutes.
    struct Tile: Sendable {
        let title: String
        let value: String
        let note: String
        /// Oldest first; nil for samples without a value.
        let points: [Double?]
        /// Describes the chart for screen readers; empty for no chart.
        let lineWords: String
        /// nil if the number is neither good nor bad.
        var level: Level?
    }

    struct Cell: Sendable {
        let text: String
        /// Text of the smaller second line; empty for none.
        let note: String
        let level: Level?

        init(_ text: String, note: String = "", level: Level? = nil) {
            (self.text, self.note, self.level) = (text, note, level)
        }
    }

    struct Column: Sendable {
        let title: String
        let isNumber: Bool

        init(_ title: String, isNumber: Bool = false) { (self.title, self.isNumber) = (title, isNumber) }
    }

    /// A table. The first cell of each row is its heading.
    struct Table: Sendable {
        /// Letters only, unique on the page.
        let id: String
        let title: String
        let caption: String
        let columns: [Column]
        /// A table without rows is not shown.
        var rows: [[Cell]]
    }

    struct Fact: Sendable {
        let name: String
        let value: Cell

        init(_ name: String, _ value: String, note: String = "", level: Level? = nil) {
            (self.name, self.value) = (name, Cell(value, note: note, level: level))
        }
    }

    struct Facts: Sendable {
        let title: String
        let facts: [Fact]

        /// Omits facts that say only that there is nothing.
        init(_ title: String, _ facts: [Fact]) {
            (self.title, self.facts) = (title, facts.filter { !["0", "none"].contains($0.value.text) })
        }
    }

    /// One of the last exchanges, with expandable details.
    struct Exchange: Sendable {
        let time: String
        let target: String
        /// The result as one word.
        let result: String
        let note: String
        let isFailed: Bool
        let sentences: [String]
    }

    /// The state, one fact a line.
    var lines: [String] = []
    var level = Level.well
    var version = ""
    /// Time of the numbers (RFC 3339).
    var time = ""
    var tiles: [Tile] = []
    var tables: [Table] = []
    var facts: [Facts] = []
    /// The most frequent paths, each table by one measure; empty if the request may not see paths.
    var tops: [Table] = []
    /// The last exchanges, newest first; nil if the request may not see them.
    var exchanges: [Exchange]?
}

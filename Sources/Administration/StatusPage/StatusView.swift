// Contents of the status page as plain values. Numbers and texts are complete; the page only arranges them.

public struct StatusView: Sendable {
    public enum Level: String, Sendable {
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
    public struct Tile: Sendable {
        public let title: String
        public let value: String
        /// Explains the value.
        public let note: String
        /// Oldest first; nil for samples without a value.
        public let points: [Double?]
        /// Describes the chart for screen readers; empty for no chart.
        public let lineWords: String
        /// nil if the number is neither good nor bad.
        public let level: Level?

        public init(title: String, value: String, note: String, points: [Double?], lineWords: String, level: Level? = nil) {
            (self.title, self.value, self.note, self.points) = (title, value, note, points)
            (self.lineWords, self.level) = (lineWords, level)
        }
    }

    public struct Cell: Sendable {
        public let text: String
        /// Text of the smaller second line; empty for none.
        public let note: String
        public let level: Level?

        public init(_ text: String, note: String = "", level: Level? = nil) {
            (self.text, self.note, self.level) = (text, note, level)
        }
    }

    public struct Column: Sendable {
        public let title: String
        public let isNumber: Bool

        public init(_ title: String, isNumber: Bool = false) { (self.title, self.isNumber) = (title, isNumber) }
    }

    /// A table. The first cell of each row is its heading.
    public struct Table: Sendable {
        /// Letters only, unique on the page.
        public let id: String
        public let title: String
        /// Describes the rows.
        public let caption: String
        public let columns: [Column]
        /// A table without rows is not shown.
        public var rows: [[Cell]]

        public init(id: String, title: String, caption: String, columns: [Column], rows: [[Cell]]) {
            (self.id, self.title, self.caption, self.columns, self.rows) = (id, title, caption, columns, rows)
        }
    }

    public struct Fact: Sendable {
        public let name: String
        public let value: Cell

        public init(_ name: String, _ value: String, note: String = "", level: Level? = nil) {
            (self.name, self.value) = (name, Cell(value, note: note, level: level))
        }
    }

    public struct Facts: Sendable {
        public let title: String
        public let facts: [Fact]

        /// Omits facts that say only that there is nothing.
        public init(_ title: String, _ facts: [Fact]) {
            (self.title, self.facts) = (title, facts.filter { !["0", "none"].contains($0.value.text) })
        }
    }

    /// One of the last exchanges, with expandable details.
    public struct Exchange: Sendable {
        public let time: String
        public let target: String
        /// The result as one word.
        public let result: String
        public let note: String
        public let isFailed: Bool
        public let sentences: [String]

        public init(time: String, target: String, result: String, note: String, isFailed: Bool, sentences: [String]) {
            (self.time, self.target, self.result, self.note) = (time, target, result, note)
            (self.isFailed, self.sentences) = (isFailed, sentences)
        }
    }

    /// The state, one fact a line.
    public var lines: [String] = []
    public var level = Level.well
    public var version = ""
    /// Time of the numbers (RFC 3339).
    public var time = ""
    public var tiles: [Tile] = []
    public var tables: [Table] = []
    public var facts: [Facts] = []
    /// The most frequent paths, each table by one measure; empty if the request may not see paths.
    public var tops: [Table] = []
    /// The last exchanges, newest first; nil if the request may not see them.
    public var exchanges: [Exchange]?

    public init() {}
}

// What the page of the state shows, as plain values: numbers and words are made before, and the page only arranges them.

public struct StatusView: Sendable {
    public enum Level: String, Sendable {
        case well, strained, down

        /// Colour is never alone.
        var word: String {
            switch self {
            case .well: "Well"
            case .strained: "Look here"
            case .down: "Down"
            }
        }
    }

    /// A number, and its way through the last five minutes.
    public struct Tile: Sendable {
        public let title: String
        public let value: String
        /// What it is of.
        public let note: String
        /// Oldest first; nil where there was nothing to tell.
        public let points: [Double?]
        /// What the line shows, for those who do not see it.
        public let lineWords: String
        /// nil where the number is neither good nor bad.
        public let level: Level?

        public init(title: String, value: String, note: String, points: [Double?], lineWords: String, level: Level? = nil) {
            (self.title, self.value, self.note, self.points) = (title, value, note, points)
            (self.lineWords, self.level) = (lineWords, level)
        }
    }

    public struct Cell: Sendable {
        public let text: String
        /// In a smaller line below.
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

    /// The first cell of each row is its heading.
    public struct Table: Sendable {
        /// Letters only; the page has each once.
        public let id: String
        public let title: String
        /// What the rows are.
        public let caption: String
        public let columns: [Column]
        public var rows: [[Cell]]
        /// What is said where there is none.
        public let empty: String

        public init(id: String, title: String, caption: String, columns: [Column], rows: [[Cell]], empty: String) {
            (self.id, self.title, self.caption, self.columns) = (id, title, caption, columns)
            (self.rows, self.empty) = (rows, empty)
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

        public init(_ title: String, _ facts: [Fact]) { (self.title, self.facts) = (title, facts) }
    }

    /// One of the last exchanges, which opens to its explanation.
    public struct Exchange: Sendable {
        public let time: String
        public let target: String
        /// The result, in a word.
        public let result: String
        public let note: String
        public let isFailed: Bool
        public let sentences: [String]

        public init(time: String, target: String, result: String, note: String, isFailed: Bool, sentences: [String]) {
            (self.time, self.target, self.result, self.note) = (time, target, result, note)
            (self.isFailed, self.sentences) = (isFailed, sentences)
        }
    }

    public var sentence = ""
    public var level = Level.well
    public var version = ""
    /// Of the numbers, RFC 3339.
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

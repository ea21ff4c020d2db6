// What the page shows to those with a session: targets, exchanges, and what is stored.

extension StatusView {
    /// One of the last exchanges; opens to what was done, and why.
    public struct Exchange: Sendable {
        public let time: String
        /// What was asked for.
        public let target: String
        /// What came of it, in a word.
        public let result: String
        public let note: String
        public let isFailed: Bool
        public let sentences: [String]

        public init(time: String, target: String, result: String, note: String, isFailed: Bool, sentences: [String]) {
            (self.time, self.target, self.result, self.note) = (time, target, result, note)
            (self.isFailed, self.sentences) = (isFailed, sentences)
        }
    }

    /// One stored response.
    public struct Entry: Sendable {
        public let id: String
        public let target: String
        public let facts: [Fact]
        public let fields: [(name: String, value: String)]
        /// The beginning of its content; or why it is not shown.
        public let content: String
        public let isContentShown: Bool

        public init(
            id: String, target: String, facts: [Fact], fields: [(name: String, value: String)], content: String, isContentShown: Bool
        ) {
            (self.id, self.target, self.facts) = (id, target, facts)
            (self.fields, self.content, self.isContentShown) = (fields, content, isContentShown)
        }
    }

    public struct Private: Sendable {
        /// Of the page, as whoever looks has it: what its forms and links begin with.
        public let path: String
        /// What was asked for most lately, each by one measure.
        public var tops: [Table] = []
        public var exchanges: [Exchange] = []
        /// Modes and faults that are for some paths.
        public var switched: Table?
        /// For the forms; empty where no session has one.
        public var formToken = ""
        /// What is looked for in the store.
        public var prefix = ""
        public var tag = ""
        /// nil where nothing is looked for.
        public var listed: Table?
        /// All that fits what is looked for, in words, where it can be purged at once; nil where it cannot.
        public var all: String?
        public var entry: Entry?
        /// Of the last purge; what is wrong.
        public var said = ""

        public init(path: String = "/-/status") { self.path = path }
    }
}

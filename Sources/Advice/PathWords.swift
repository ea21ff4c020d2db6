// Learns which words of paths name resources. A word counts once several requests have succeeded with it. Where a position has many
// different words in use, such as user names, they count as identifiers. Random words cannot push out the known ones.

import HTTPCore

struct PathWords {
    enum Reading {
        case word
        case identifier
        /// An identifier for now; the word may become known.
        case candidate
        /// An identifier; the former words at this position are identifiers from now on.
        case manyWords
        /// Too few requests had this word.
        case unknown
    }

    fileprivate struct Word {
        let hash: UInt64
        var count: UInt32
        var usedAt: Int64
    }

    fileprivate struct Position {
        var words: [Word] = []
        var usedAt: Int64
        /// Whether all words are identifiers.
        var hasManyWords = false
    }

    /// Number of successful requests after which a word is known.
    static let admission: UInt32 = 4
    /// Maximum number of different words at a position. With more in use, further words of the first segment, and all words of a later
    /// segment, are identifiers.
    static let wordLimit = 32
    /// Maximum number of positions.
    static let positionLimit = 512
    /// Milliseconds after which an unused word, or an unused position, may be replaced.
    fileprivate static let idleLimit: Int64 = 7_200_000

    /// By the template before the position.
    private var positions: [[UInt8]: Position] = [:]

    /// - Parameter template: template before the segment.
    mutating func read(_ segment: ArraySlice<UInt8>, after template: [UInt8], _ fetch: ObservedFetch, now: Int64) -> Reading {
        if PathTemplate.isIdentifier(segment) { return .identifier }
        let hash = ContentHash.number(of: segment.span)
        if let index = positions.index(forKey: template) {
            return positions.values[index].read(hash, isFirst: template.count == 1, fetch, now: now)
        }
        guard fetch.showsPath else { return .unknown }
        if positions.count >= Self.positionLimit { positions = positions.filter { now - $0.value.usedAt <= Self.idleLimit } }
        if positions.count < Self.positionLimit {
            positions[template] = Position(words: [Word(hash: hash, count: 1, usedAt: now)], usedAt: now)
        }
        return .unknown
    }
}

extension PathWords.Position {
    fileprivate mutating func read(_ hash: UInt64, isFirst: Bool, _ fetch: ObservedFetch, now: Int64) -> PathWords.Reading {
        if fetch.showsPath { usedAt = now }
        guard !hasManyWords else { return .identifier }
        if let index = words.firstIndex(where: { $0.hash == hash }) {
            if fetch.showsPath {
                words[index].count = min(words[index].count + 1, PathWords.admission)
                words[index].usedAt = now
            }
            return words[index].count >= PathWords.admission ? .word : .unknown
        }
        let word = PathWords.Word(hash: hash, count: 1, usedAt: now)
        guard words.count >= PathWords.wordLimit else {
            if fetch.showsPath { words.append(word) }
            return .unknown
        }
        guard fetch.showsPath else { return .candidate }
        let replaceable = words.indices.filter { words[$0].count < PathWords.admission || now - words[$0].usedAt > PathWords.idleLimit }
        if let oldest = replaceable.min(by: { words[$0].usedAt < words[$1].usedAt }) {
            words[oldest] = word
            return .candidate
        }
        guard !isFirst else { return .identifier }
        (words, hasManyWords) = ([], true)
        return .manyWords
    }
}

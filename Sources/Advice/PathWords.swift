// Learns which words of paths name resources. A word counts once several requests with it have succeeded. Where a place in a path has many
// different words, such as user names, further ones count as identifiers. So random paths cannot push out the known words.

import HTTPCore

struct PathWords {
    enum Reading {
        case word
        case identifier
        /// Too few requests had this word.
        case unknown
    }

    fileprivate struct Word {
        let hash: UInt64
        var count: UInt32
        var usedAt: Int64
    }

    fileprivate struct Place {
        var words: [Word] = []
        var usedAt: Int64
    }

    /// Number of successful requests after which a word is known.
    static let admission: UInt32 = 4
    /// Maximum number of different words at one place.
    static let wordLimit = 16
    /// Maximum number of places.
    static let placeLimit = 512
    /// Milliseconds after which an unused word or place may be replaced.
    fileprivate static let idleLimit: Int64 = 3_600_000

    /// By the hash of the template before the place.
    private var places: [UInt64: Place] = [:]

    /// - Parameters:
    ///   - parent: hash of the template before the segment.
    ///   - mayLearn: whether the request has succeeded.
    mutating func read(_ segment: ArraySlice<UInt8>, after parent: UInt64, mayLearn: Bool, now: Int64) -> Reading {
        if PathTemplate.isIdentifier(segment) { return .identifier }
        let hash = ContentHash.number(of: segment.span)
        if let index = places.index(forKey: parent) { return places.values[index].read(hash, mayLearn: mayLearn, now: now) }
        guard mayLearn else { return .unknown }
        if places.count >= Self.placeLimit { places = places.filter { now - $0.value.usedAt <= Self.idleLimit } }
        if places.count < Self.placeLimit {
            places[parent] = Place(words: [Word(hash: hash, count: 1, usedAt: now)], usedAt: now)
        }
        return .unknown
    }
}

extension PathWords.Place {
    fileprivate mutating func read(_ hash: UInt64, mayLearn: Bool, now: Int64) -> PathWords.Reading {
        if mayLearn { usedAt = now }
        if let index = words.firstIndex(where: { $0.hash == hash }) {
            if mayLearn {
                words[index].count = min(words[index].count, .max - 1) + 1
                words[index].usedAt = now
            }
            return words[index].count >= PathWords.admission ? .word : .unknown
        }
        let word = PathWords.Word(hash: hash, count: 1, usedAt: now)
        guard words.count >= PathWords.wordLimit else {
            if mayLearn { words.append(word) }
            return .unknown
        }
        guard mayLearn else { return .identifier }
        let replaceable = words.indices.filter { words[$0].count < PathWords.admission || now - words[$0].usedAt > PathWords.idleLimit }
        if let oldest = replaceable.min(by: { words[$0].usedAt < words[$1].usedAt }) { words[oldest] = word }
        return .identifier
    }
}

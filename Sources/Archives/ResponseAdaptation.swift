// Adapts the JSON content of a recorded response: moves its dates, and finds the values that it repeats from its request. All other bytes
// stay as they are.

import HTTPCore
import JSON

extension DateShift {
    /// Moves dates in fields that contain nothing else.
    func move(_ fields: Fields) -> Fields {
        var moved = Fields()
        for index in 0..<fields.count {
            var value = Array(fields.value(at: index))
            if let beginning = beginning(of: value[...]) { value.replaceSubrange(..<beginning.count, with: beginning) }
            moved.append(name: fields.name(at: index).span, value: value.span)
        }
        return moved
    }

    /// Moves dates in strings, and numbers at the pointers. Names of members are kept.
    /// - Parameters:
    ///   - content: text that `JSONTextChecker` accepted as valid.
    ///   - echoes: ranges of the content.
    /// - Returns: the content, and the echoes with their new ranges.
    func move(
        content: [UInt8], epochs: [JSONPointer], _ echoes: [ReplayEcho] = []
    ) -> (content: [UInt8], echoes: [ReplayEcho]) {
        var moved = content
        JSONWalk.through(content.span) { token, meaning in
            guard case .string(let range) = token, range.count >= Self.shortest, range.count <= Self.longest else { return true }
            let text = meaning(range)
            // Escapes may follow the part that changes.
            guard let beginning = beginning(of: text[...]), content[range].starts(with: text.prefix(beginning.count)) else { return true }
            moved.replaceSubrange(range.lowerBound..<range.lowerBound + beginning.count, with: beginning)
            return true
        }
        var echoes = echoes
        for pointer in epochs {
            guard let range = pointer.range(in: moved.span)?.value, let number = self.moved(epoch: moved[range]) else { continue }
            moved.replaceSubrange(range, with: number)
            echoes = echoes.map { $0.replacing(range, with: number.count) }
        }
        return (moved, echoes)
    }

    /// Length of `2026-11-21`.
    private static let shortest = 10
    /// Smallest number that counts milliseconds. As seconds, it would be in the year 5138.
    private static let milliseconds: Int64 = 100_000_000_000

    /// Moves seconds or milliseconds since 1970, and keeps the fraction. nil if the text is no such number.
    private func moved(epoch text: ArraySlice<UInt8>) -> [UInt8]? {
        let digits = text.prefix(while: \.isASCIIDigit)
        let fraction = text[digits.endIndex...]
        guard fraction.isEmpty || fraction.first == UInt8(ascii: ".") && fraction.dropFirst().allSatisfy(\.isASCIIDigit),
            let number = Int64(String(decoding: digits, as: UTF8.self))
        else { return nil }
        let (sum, overflows) = number.addingReportingOverflow(seconds * (number >= Self.milliseconds ? 1_000 : 1))
        return overflows || sum < 0 ? nil : Array(String(sum).utf8) + fraction
    }
}

/// A value in a response that repeats a value of its request.
struct ReplayEcho: Sendable, Equatable {
    /// Index of the source in `ReplayRules.echoes`.
    let source: Int
    /// The value with the quotes of a string.
    let range: Range<Int>

    /// Returns the echo after a value of the content was replaced by one of another length.
    fileprivate func replacing(_ value: Range<Int>, with count: Int) -> ReplayEcho {
        let growth = count - value.count
        let start = range.lowerBound >= value.upperBound ? range.lowerBound + growth : range.lowerBound
        let end = range.upperBound >= value.upperBound ? range.upperBound + growth : range.upperBound
        return ReplayEcho(source: source, range: start..<end)
    }

    /// Maximum number of echoes in a response.
    static let limit = 1_000

    /// Finds the strings of the content that equal an echoed string of the request. A number must also have its position, because short
    /// numbers are common.
    /// - Parameters:
    ///   - content: text that `JSONTextChecker` accepted as valid.
    ///   - echoed: values of the recorded request (`ReplayRules.echoed`).
    static func all(in content: [UInt8], _ sources: [ReplayRules.EchoSource], _ echoed: [[UInt8]?]) -> [ReplayEcho] {
        var strings: [[UInt8]: Int] = [:]
        var echoes: [ReplayEcho] = []
        for (index, (source, value)) in zip(sources, echoed).enumerated() {
            guard let value else { continue }
            if let text = JSONValue(value)?.string {
                // A placeholder is the value of any secret.
                guard !text.isEmpty, text != SecretRedaction.placeholder, strings[Array(text.utf8)] == nil else { continue }
                strings[Array(text.utf8)] = index
            } else if case .pointer(let pointer) = source, let range = pointer.range(in: content.span)?.value,
                content[range].elementsEqual(value)
            {
                echoes.append(ReplayEcho(source: index, range: range))
            }
        }
        guard !strings.isEmpty else { return sorted(echoes) }
        JSONWalk.through(content.span) { token, meaning in
            guard case .string(let range) = token, range.count <= ReplayRules.echoedBytes else { return true }
            guard let source = strings[meaning(range)] else { return true }
            echoes.append(ReplayEcho(source: source, range: range.lowerBound - 1..<range.upperBound + 1))
            return echoes.count < limit
        }
        return sorted(echoes)
    }

    /// Orders by position, and drops repetitions of a position.
    private static func sorted(_ echoes: [ReplayEcho]) -> [ReplayEcho] {
        let ordered = echoes.sorted { $0.range.lowerBound < $1.range.lowerBound }
        return ordered.indices.filter { $0 == 0 || ordered[$0].range != ordered[$0 - 1].range }.map { ordered[$0] }
    }
}

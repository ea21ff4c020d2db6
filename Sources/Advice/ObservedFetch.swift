// The facts about one fetch that an observation needs. They contain no content and no credentials, only hashes of them.

import CachePolicy
import HTTPCore

public struct ObservedFetch: Sendable {
    public enum Data: Sendable, Equatable {
        /// The stored response has no entity tag, and the upstream confirmed it.
        case unchanged
        /// Hash of the entity tag or the content; 0 if it is unknown, which counts as changed.
        case hash(UInt64)
    }

    public enum Outcome: Sendable {
        /// A good response. `isStated`: the response itself states its freshness, or requires validation.
        case good(Data, isStated: Bool)
        /// A response that is not stored.
        case unstored(NotStoredReason)
        /// A response without the resource, such as 404 or 403. `isStorable`: whether `negative` could store it.
        case absent(UInt16, isStorable: Bool)
        /// Index of a cause in `MetricNames.rescueCauses`.
        case failed(UInt8)
    }

    public let outcome: Outcome
    /// Hash of the cache key, which includes the partition.
    public let key: UInt64
    /// Number of the partition; 0 if the key contains no credentials.
    public let partition: UInt64
    /// Index of the route.
    public let route: UInt16
    /// Whether the fetch takes place regardless of freshness.
    public let isForced: Bool
    /// Microseconds from the end of the request to the first byte of the response; -1 if there was none.
    public let firstByte: Int64

    public init(_ outcome: Outcome, key: UInt64, partition: UInt64 = 0, route: UInt16 = 0, isForced: Bool = false, firstByte: Int64 = -1) {
        (self.outcome, self.key, self.partition) = (outcome, key, partition)
        (self.route, self.isForced, self.firstByte) = (route, isForced, firstByte)
    }

    /// Whether the upstream has shown that the path exists. Only such fetches add words and paths to the observation.
    var showsPath: Bool {
        switch outcome {
        case .good: true
        case .unstored(let reason): reason != .status
        case .absent, .failed: false
        }
    }
}

/// Target and fields of an observed fetch, for new data.
public struct ObservedMessage {
    /// Path and query.
    let target: ArraySlice<UInt8>
    let request: Fields
    /// nil for a confirmation without content.
    let response: Fields?
    /// Hash of the content; 0 if it is unknown. Unlike entity tags, it can be compared with those of other targets.
    let content: UInt64
    /// Number for the negotiation and unknown fields of the request.
    let likeness: UInt64

    public init(
        target: ArraySlice<UInt8>, request: Fields = Fields(), response: Fields? = nil, content: UInt64 = 0, likeness: UInt64 = 0
    ) {
        (self.target, self.request, self.response) = (target, request, response)
        (self.content, self.likeness) = (content, likeness)
    }

    /// Maximum number of selecting fields of a path.
    static let varyingLimit = 4

    /// Adds the names in Vary, in lower case, without those that cannot be ignored: credentials, Origin, and Accept-Encoding, by which nothing
    /// varies in the store.
    /// - Returns: whether all names are kept: there is space, and they can be shown.
    func addVarying(to names: inout [[UInt8]]) -> Bool {
        guard let response, response.contains(.vary) else { return true }
        return !FieldLists.contains(.vary, in: response) { member in
            guard !member.equalsIgnoringCase("accept-encoding"), !member.equalsIgnoringCase("origin") else { return false }
            let name = member.map(\.asciiLowercased)
            guard !CredentialNames.wellKnown.contains(name.span), !names.contains(name) else { return false }
            guard names.count < Self.varyingLimit, name.isPlainName else { return true }
            names.append(name)
            return false
        }
    }
}

extension Collection<UInt8> {
    /// Whether the text can be shown as the name of an argument or field: 1 to 40 letters, digits and `-_.[]$`.
    var isPlainName: Bool {
        (1...40).contains(count) && allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "-_.[]$".utf8.contains($0) }
    }
}

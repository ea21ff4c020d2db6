// Prepares an archive for replay: selects the entries that can be served, and converts them.

import HTTPCore

public struct Recording: Sendable {
    /// Requests in the order of `responses`, one for each response.
    public private(set) var requests: [(request: ReplayRequest, response: Fields)] = []
    public private(set) var responses: [ReplayResponse] = []
    /// Origins of the recorded requests.
    public private(set) var origins: [ArchiveOrigin] = []
    /// Number of entries that cannot be served, by the sentence that explains why.
    public private(set) var omitted: [String: Int] = [:]
    public let secrets: SecretRedaction

    /// - Parameters:
    ///   - given: origins of the requests to use. If empty, the recorded upstream is used; without one, all origins.
    ///   - now: seconds since 1970.
    public init(
        _ reader: ArchiveReader, origins given: [ArchiveOrigin], secrets: SecretRedaction, now: Int64
    ) throws(ArchiveReader.Mistake) {
        var secrets = secrets
        let wanted = given.isEmpty ? reader.upstream.flatMap { ArchiveOrigin($0) }.map { [$0] } ?? [] : given
        var exchanges: [(exchange: ArchivedExchange, target: [UInt8])] = []
        for index in 0..<reader.count {
            guard let exchange = try Self.exchange(index, of: reader, &omitted) else { continue }
            let origin = wanted.isEmpty ? ArchiveOrigin(ofRecorded: exchange.url) : wanted.first { $0.target(of: exchange.url) != nil }
            guard let origin, let target = origin.target(of: exchange.url) else {
                omitted["the request went to another origin", default: 0] += 1
                continue
            }
            guard ArchiveOrigin.canBeSent(target) else { throw reader.mistake("request.url is not a URL", in: index) }
            if !origins.contains(origin) { origins.append(origin) }
            secrets.addNames(of: exchange)
            exchanges.append((exchange, Array(RequestTarget.escaped(target[...]))))
        }
        self.secrets = secrets
        for (exchange, target) in exchanges {
            let request = ReplayRequest(
                method: exchange.method, target: target, fields: exchange.requestFields,
                content: exchange.isRequestContentKnown ? exchange.requestContent : nil, secrets)
            requests.append((request, exchange.response.fields))
            responses.append(ReplayResponse(exchange, origins: origins, now: now))
        }
    }

    private static func exchange(
        _ index: Int, of reader: ArchiveReader, _ omitted: inout [String: Int]
    ) throws(ArchiveReader.Mistake) -> ArchivedExchange? {
        let sentence: String
        do throws(ArchiveFault) {
            let exchange = try ArchivedExchange(reader.entry(index))
            guard exchange.response.status == 304 else { return exchange }
            sentence = "a 304 cannot be replayed without the response that the recorded client had stored"
        } catch {
            switch error {
            case .malformed(let what): throw reader.mistake(what, in: index)
            case .unusable(let reason): sentence = reason.sentence
            }
        }
        omitted[sentence, default: 0] += 1
        return nil
    }
}

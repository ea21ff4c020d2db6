// Prepares an archive for replay: selects the entries that can be served, and converts them.

import HTTPCore
import JSON

public struct Recording: Sendable {
    /// Requests in the order of `responses`, one for each response.
    public private(set) var requests: [(request: ReplayRequest, response: Fields)] = []
    public private(set) var responses: [ReplayResponse] = []
    /// Origins of the recorded requests.
    public private(set) var origins: [ArchiveOrigin] = []
    /// Origin that selects the requests; nil if all origins are used.
    private let selected: ArchiveOrigin?
    private let isNew: Bool
    /// Number of entries that cannot be served, by the sentence that explains why.
    public private(set) var omitted: [String: Int] = [:]
    public let secrets: SecretRedaction
    public let rules: ReplayRules
    /// Seconds without a request after which a new session begins. All dates of a session move by one duration.
    private static let pauseLimit: Int64 = 86_400

    /// - Parameters:
    ///   - given: origins of the requests to use. If empty, the recorded upstream is used; without one, all origins.
    ///   - now: seconds since 1970.
    public init(
        _ reader: ArchiveReader, origins given: [ArchiveOrigin], secrets: SecretRedaction, _ rules: ReplayRules = ReplayRules(), now: Int64
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
        (self.secrets, self.rules, selected, isNew) = (secrets, rules, wanted.first, reader.count == 0)
        let begins = Self.sessions(exchanges.map { ($0.exchange.started, $0.exchange.session) })
        guard !rules.shiftsDates || exchanges.isEmpty || begins.contains(where: { $0 != nil }) else {
            throw ArchiveReader.Mistake("no entry has a valid startedDateTime, which --shift-dates needs")
        }
        for ((exchange, target), begin) in zip(exchanges, begins) {
            let shift = rules.shiftsDates ? begin.map { DateShift(from: $0, to: now) } : nil
            let prepared = prepare(exchange, target, shift, now: now)
            requests.append((prepared.request, exchange.response.fields))
            responses.append(prepared.response)
        }
    }

    /// Returns the base URL for captured exchanges, so that a later replay of the archive matches them.
    /// - Parameter upstream: URL to which requests are forwarded.
    public func captureOrigin(_ upstream: String) -> ArchiveOrigin? {
        if let origin = selected ?? origins.first { return origin }
        // A new archive names its upstream. In any other archive without an upstream, targets begin with the base path.
        return isNew ? ArchiveOrigin(upstream) : ArchiveOrigin(ofRecorded: upstream)
    }

    /// Prepares an exchange that was captured during the replay.
    /// - Parameters:
    ///   - entry: the exchange as in the archive.
    ///   - origin: that of its URL.
    /// - Returns: nil if it cannot be replayed.
    public func prepare(
        captured entry: JSONValue, of origin: ArchiveOrigin, now: Int64
    ) -> (request: ReplayRequest, fields: Fields, response: ReplayResponse)? {
        guard let exchange = try? ArchivedExchange(entry), exchange.response.status != 304, let target = origin.target(of: exchange.url)
        else { return nil }
        let prepared = prepare(exchange, Array(RequestTarget.escaped(target[...])), nil, now: now)
        return (prepared.request, exchange.response.fields, prepared.response)
    }

    private func prepare(
        _ exchange: ArchivedExchange, _ target: [UInt8], _ shift: DateShift?, now: Int64
    ) -> (request: ReplayRequest, response: ReplayResponse) {
        let request = ReplayRequest(
            method: exchange.method, target: target, fields: exchange.requestFields,
            content: exchange.isRequestContentKnown ? exchange.requestContent : nil, secrets, rules)
        return (request, ReplayResponse(exchange, origins: origins, now: now, rules, shift: shift, echoed: request.echoed))
    }

    /// The start of each exchange's session in seconds since 1970; nil before the first known time. A session begins after a long pause,
    /// and with the captures of each replay.
    /// - Parameter exchanges: milliseconds since 1970, and `ArchivedExchange.session`.
    static func sessions(_ exchanges: [(started: Int64?, name: String?)]) -> [Int64?] {
        var (begin, last): (Int64?, Int64) = (nil, 0)
        var name: String?
        return exchanges.map { exchange in
            if exchange.name != name { (begin, last, name) = (nil, 0, exchange.name) }
            guard let seconds = exchange.started.map({ $0 / 1_000 }) else { return begin }
            if begin == nil || seconds - last > pauseLimit { begin = seconds }
            last = max(last, seconds)
            return begin
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

// Explains one exchange: its key, the stored response, the decision and its reason, the upstream's part, and the setting that would change
// the result.

import CachePolicy
import Decisions
import Figures
import Forwarding
import HTTPCore
import JSON
import Upstream

/// Properties of a route that explanations need.
public struct ExplainedRoute: Sendable {
    /// Empty for paths without a route.
    public let name: String
    let arguments: ArgumentRules
    /// Maximum staleness in seconds of a rescue; nil means no limit.
    let staleFor: Int64?
    /// Names of the fields that Cistern sets in requests to the upstream, and of those that it removes.
    let fields: (set: [String], removed: [String])

    /// For requests that belong to no API.
    public static let none = ExplainedRoute(name: "", arguments: ArgumentRules())

    public init(
        name: String, arguments: ArgumentRules, staleFor: Int64? = nil, fields: (set: [String], removed: [String]) = ([], [])
    ) {
        self.name = name
        self.staleFor = staleFor
        self.arguments = arguments
        self.fields = fields
    }
}

public struct WhyExplanation {
    public let record: WhyRecord
    private let exchange: ExchangeRecord
    private let route: ExplainedRoute
    /// Empty if there is only one API.
    private let api: String
    private let before: PreviousNotStored?
    private let unknownField: String?
    private let refusal: Refusal?

    /// Reason for which the store wrote nothing at the time of the exchange.
    public struct Refusal: Sendable {
        /// Text such as `its disk is full (No space left on device)`.
        let cause: String
        let advice: String

        public init(cause: String, advice: String) { (self.cause, self.advice) = (cause, advice) }
    }

    /// - Parameters:
    ///   - route: route of the record's target. It is not recorded, because hits do not determine it.
    ///   - unknownField: name of the field that prevented a hit; nil if none did.
    ///   - before: why earlier responses were not stored; nil if unknown or irrelevant.
    ///   - refusal: reason for which the store wrote nothing at that time; nil if it wrote.
    public init(
        _ record: WhyRecord, route: ExplainedRoute, api: String = "", unknownField: String? = nil, before: PreviousNotStored? = nil,
        refusal: Refusal? = nil
    ) {
        self.refusal = record.exchange.reasons.notStored == .storeRefused || record.exchange.isStored ? refusal : nil
        self.unknownField = unknownField
        self.api = api
        // A statement that the target is gone is a sufficient explanation.
        self.before = record.lacksCopy && record.exchange.reasons.sharedRescueRefusal != .gone ? before : nil
        self.record = record
        exchange = record.exchange
        self.route = route
    }

    // MARK: Key

    private var isLookedUp: Bool { exchange.found.kind != .notLookedUp }

    /// The target in canonical form. If the recorded target is truncated, so is the result.
    private var canonicalTarget: [UInt8] {
        var key: [UInt8] = []
        CacheKey.append(to: &key, authority: [], target: record.target.span, rules: route.arguments)
        return StoredKey(key)?.target ?? record.target
    }

    private var partition: String? {
        exchange.partition == 0
            ? nil : StoredKey.hexadecimal((0..<4).map { UInt8(truncatingIfNeeded: exchange.partition >> (24 - 8 * $0)) })
    }

    /// Parts of the request that the key omits, as text.
    private var dropped: [String] {
        var dropped: [String] = []
        if record.isCut { dropped.append("the end of the target: only its first 256 bytes are recorded") }
        let names = { (target: [UInt8]) -> [String] in
            guard let question = target.firstIndex(of: UInt8(ascii: "?")) else { return [] }
            return target[(question + 1)...].split(separator: UInt8(ascii: "&")).map { argument in
                let name = argument.prefix { $0 != UInt8(ascii: "=") }
                return PercentCoding.decode(name, plusIsSpace: true) ?? String(decoding: name, as: UTF8.self)
            }
        }
        let canonical = canonicalTarget
        let kept = names(canonical).map { $0.lowercased() }
        for name in names(record.target) where !kept.contains(name.lowercased()) {
            dropped.append("the argument \(name): the route's settings exclude it from the key")
        }
        if dropped.isEmpty, canonical != record.target { dropped.append("the order of arguments and the spelling of percent-encoding") }
        if partition != nil { dropped.append("the credentials: a keyed hash replaces them") }
        return dropped
    }

    // MARK: Decision

    private var failure: FetchFailure? { exchange.upstream.failure }

    /// A word for the decision.
    public var decision: String {
        if exchange.background != nil {
            if exchange.isStored { return "stored_response_of_upstream" }
            return exchange.result == .revalidated ? "confirmed_stored_copy" : "left_store_as_it_was"
        }
        return switch exchange.result {
        case .hit, .stale: "served_from_store"
        case .rescued: "served_stored_copy"
        case .revalidated: "served_confirmed_copy"
        case .collapsed: "served_response_of_another_request"
        case .miss, .bypass: "served_response_of_upstream"
        case .error: "failed"
        case .own: "own_page"
        }
    }

    /// Sentences for people.
    private var explanation: [String] {
        var sentences = [exchange.background?.cause.sentence ?? lookUpSentence]
        if let unknownField {
            sentences.append(
                "The stored response has another value of \(unknownField), and the upstream may depend on it, so it was not used.")
        }
        if let before { sentences.append(before.sentence) }
        if exchange.found.kind == .stored { sentences += freshnessSentences }
        if exchange.reasons.isClientIgnored {
            sentences.append("The request demanded a request to the upstream, but client_directives is ignore.")
        }
        if exchange.reasons.isMethodOverrideRemoved {
            sentences.append("The request named another method in a field, which was removed (forwarding.override_fields).")
        }
        if exchange.upstream.isFaulted {
            sentences.append("A fault was injected for a drill, so this result does not show the upstream's state (see cistern drill ls).")
        }
        if let failure { sentences.append(failure.sentence(status: exchange.upstream.status)) }
        if exchange.upstream.patience > 0 {
            let time = NumberText.duration(microseconds: Int64(exchange.upstream.patience) * 1_000)
            sentences.append("Responses to this request are usually slow, so the time limit was \(time), twice the usual time.")
        }
        if exchange.found.isGone {
            // A 403 revoked the user's access (`ResponseCache.saysGone`).
            let meaning = exchange.status == 403 ? "that this user may not read it (403)" : "that it is gone"
            sentences.append(
                exchange.result == .rescued
                    ? "The client got the upstream's latest answer: \(meaning). The older response stays stored, and is used again after a 200 or 304."
                    : "It is stored in addition to the older response. While the upstream fails, it is served instead.")
        } else if let permission = exchange.reasons.sharedRescuePermission {
            sentences.append("\(permission.copy) was served instead: \(permission.sentence).")
        } else if exchange.result == .rescued {
            sentences.append("The stored response was served instead.")
        }
        if exchange.result == .revalidated { sentences.append("The upstream confirmed the stored response.") }
        if exchange.background != nil, exchange.found.kind == .stored, !exchange.isStored, exchange.result != .revalidated {
            sentences.append("The stored response was kept.")
        }
        if exchange.result == .error, let reason = exchange.reasons.notRescued {
            sentences.append("The stored response may not be served in an outage: \(reason.sentence).")
        }
        if exchange.result == .error, let reason = exchange.reasons.sharedRescueRefusal {
            sentences.append("The response stored for clients without credentials may not be served instead: \(reason.sentence).")
        }
        if let identity = exchange.identity { sentences.append(identity.sentence) }
        if exchange.isStored {
            let doubt = refusal.map { " in memory; its disk refused writes at that time: \($0.cause)" } ?? ""
            sentences.append("The response was stored\(doubt).")
        }
        if let reason = exchange.reasons.notStored, !exchange.found.isGone {
            sentences.append("Not stored: \(refusalSentence ?? demand?.sentence ?? reason.sentence).")
        }
        if let sentence = exchange.content.outcome?.sentence { sentences.append(sentence) }
        if exchange.found.diskReads > 0 {
            sentences.append("The stored response was not completely in memory, so it was read from the disk.")
        }
        if let reply = exchange.found.fleetReply { sentences.append(reply.sentence) }
        if let obstacle = exchange.found.obstacle, exchange.reasons.bypass == nil { sentences.append(obstacle.sentence) }
        if exchange.reasons.carriesGrant {
            sentences.append("Scripts of the request's origin may read it, because the upstream let them read the last good response.")
        }
        if exchange.status == 499 { sentences.append("The client disconnected before a response was sent.") }
        return sentences
    }

    /// Sentences for a lifetime that the response did not give itself.
    private var freshnessSentences: [String] {
        var sentences: [String] = []
        if let sentence = exchange.found.lifetimeSource.sentence { sentences.append(sentence) }
        if exchange.found.isDisregarded {
            sentences.append("Some of the response's cache directives are ignored (freshness.ignore).")
        }
        return sentences
    }

    private var lookUpSentence: String {
        switch (exchange.mode, exchange.result) {
        case (.offline, .error): break
        case (.offline, _), (.replay, .hit): return "The stored response was served, because the mode is \(exchange.mode.rawValue)."
        case (.record, _): return "The request was sent to the upstream, because the mode is record."
        default: break
        }
        switch exchange.result {
        case .hit: return "The stored response was fresh."
        case .stale: return "The stored response was stale, and its directives permit serving it during validation."
        case .collapsed: return "Another request for this key was in flight, and its response was used."
        case .miss, .revalidated, .rescued, .bypass, .error, .own: break
        }
        switch exchange.reasons.refusal {
        case .request(.access(let refusal)): return "Cistern refused the request itself: \(refusal.explanation)."
        case .request: return "Cistern refused the request itself."
        case .offline(.precondition?): return "\(BypassReason.precondition.sentence) In mode offline no request is sent to the upstream."
        case .onlyIfCached(.precondition?):
            return "\(BypassReason.precondition.sentence) It accepts only stored responses (only-if-cached)."
        case .offline: return "No usable response is stored, and in mode offline no request is sent to the upstream."
        case .onlyIfCached: return "No fresh response is stored, and the request accepts only stored responses (only-if-cached)."
        case nil: break
        }
        if let preflight = exchange.reasons.preflight { return preflight.sentence }
        if isUnasked { return "Cistern refused the request itself." }
        if let bypass = exchange.reasons.bypass { return bypass.sentence }
        switch exchange.found.kind {
        case .notLookedUp: return "The store was not searched."
        case .nothing: return "No response is stored under this key."
        case .otherVariant: return "The responses stored under this key are for other values of the fields in Vary."
        case .stored:
            let reason =
                exchange.reasons.doubt?.sentence ?? exchange.reasons.validation?.sentence ?? "the stored response had to be validated"
            return isAsked ? "The request was sent to the upstream: \(reason)." : "The request needed the upstream: \(reason)."
        }
    }

    /// Violation of the operator's requirements by a response that was not stored; nil if none.
    private var demand: UpstreamFault? {
        guard exchange.reasons.notStored == .notGood else { return nil }
        // Only the media type is checked in the head. A response with another one is forwarded without parsing its content.
        return exchange.reasons.fault ?? .unexpectedType
    }

    private var refusalSentence: String? { refusal.map { "the store cannot write to its directory: \($0.cause)" } }

    private var isAsked: Bool { exchange.upstream.microseconds >= 0 && failure != .transfer(.connectionLimitReached) }

    /// Whether the exchange ended before a lookup or a request, for example because Cistern stopped before the request's content was
    /// complete.
    private var isUnasked: Bool { exchange.result == .error && !isAsked && failure == nil && exchange.status != 499 }

    /// The settings that caused the result.
    private var advice: [WhyAdvice] {
        guard !exchange.upstream.isFaulted else { return [] }
        var advice: [WhyAdvice] = []
        if exchange.mode != .live { advice.append(WhyAdvice("cache.mode", "is the mode at the start; `cistern mode` switches it now")) }
        // No setting makes writes storable. A POST that failed does not show whether it only reads.
        let hasFailed = !(200..<300).contains(record.responseStatus)
        let isWrite = exchange.reasons.notStored == .methodNotCacheable && (exchange.method != .post || hasFailed)
        if let refusal {
            advice.append(WhyAdvice("store.directory", "is on a disk that rejects writes: \(refusal.advice)"))
        } else if !isWrite, let one = demand?.demandAdvice ?? exchange.reasons.notStored?.advice(status: record.responseStatus) {
            advice.append(one)
        }
        if exchange.reasons.validation == .noFreshness, exchange.result != .rescued, exchange.background == nil {
            advice.append(WhyAdvice("cache.freshness.default", "is the freshness lifetime of responses without one"))
        }
        if let unknownField {
            let effect =
                "+\(unknownField): requests that differ only in this field share stored responses. Use it only if responses do not depend on the field"
            advice.append(WhyAdvice("cache.harmless_fields", effect))
        }
        if let one = before?.advice { advice.append(one) }
        if case .stopped(let stop) = failure, let one = stop.causeAdvice { advice.append(one) }
        if let one = failureAdvice { advice.append(one) }
        if exchange.found.isGone { advice.append(WhyAdvice("cache.gone", "ignore: the older stored response is served instead")) }
        if let one = exchange.content.outcome?.advice, !advice.contains(one) { advice.append(one) }
        if case .request(.access(let refusal)) = exchange.reasons.refusal { advice.append(refusal.advice) }
        if let one = exchange.identity?.advice { advice.append(one) }
        if exchange.result == .error, let one = exchange.reasons.notRescued?.advice ?? exchange.reasons.sharedRescueRefusal?.advice {
            advice.append(one)
        }
        guard route.name.isEmpty, !record.isCut else { return advice }
        return advice.map { $0.withRoute(for: SecretNames.redacted(Array(record.path)), ofAPI: api) }
    }

    /// The age of the response that rescued the request, and how much longer it may do so; nil if the request was not rescued.
    public var copySentence: String? {
        let found = exchange.found
        guard exchange.result == .rescued, found.age >= 0 else { return nil }
        let words = "The stored response was \(NumberText.span(found.age)) old"
        guard let staleFor = route.staleFor else {
            return words + "; in an outage it may be served at any age (cache.stale_for)."
        }
        let left = max(0, staleFor - max(0, found.staleness))
        return words
            + "; it may be served in an outage for another \(NumberText.span(left)) (cache.stale_for: \(NumberText.span(staleFor)))."
    }

    /// Without a stored response, more frequent requests to a failing upstream do not help.
    private var failureAdvice: WhyAdvice? {
        guard case .stopped(let stop) = failure, record.lacksCopy else {
            return failure?.advice(isUnderWay: exchange.upstream.times.firstByte >= 0)
        }
        switch stop.setting {
        case .threshold, .window, .recheck: return nil
        case .retryAfterLimit: return stop.advice
        }
    }

    // MARK: Output

    public var json: JSONValue {
        let text = { (value: String?) -> JSONValue in value.map { .string($0) } ?? .null }
        let key: JSONValue = [
            "target": .string(SecretNames.redacted(canonicalTarget)), "partition": text(partition),
            "dropped": .array(dropped.map { .string($0) }),
        ]
        return [
            "id": .string(record.id), "time": .string(RFC3339.format(milliseconds: exchange.wall)),
            "method": .string("\(exchange.method.label)"),
            "target": .string(SecretNames.redacted(record.target)), "status": .integer(Int(exchange.status)),
            "client": text(exchange.client.map { "\($0)" }), "client_protocol": text(exchange.version?.name),
            "result": .string("\(exchange.result.label)"), "mode": .string(exchange.mode.rawValue),
            "api": api.isEmpty ? .null : .string(api), "route": .string(route.name),
            "identity": text(exchange.identity?.label), "key": isLookedUp ? key : .null, "found": .string(found), "freshness": freshness,
            "decision": .string(decision),
            "reason": .string(exchange.reason), "stored": .bool(exchange.isStored),
            "not_stored": text(exchange.reasons.notStored?.rawValue),
            "background": text(exchange.background?.cause.rawValue),
            "behind": text(exchange.background.map { "\(record.shard)-\($0.behind)" }),
            "request_content": requestContent, "upstream": upstream, "explanation": .array(explanation.map { .string($0) }),
            "advice": .array(advice.map { ["setting": .string($0.setting), "effect": .string($0.effect)] }),
            "disk_reads": .integer(Int(exchange.found.diskReads)), "shared": text(exchange.found.fleetReply?.outcome.rawValue),
            "shared_us": exchange.found.fleetReply.map { .integer(Int($0.microseconds)) } ?? .null,
            "bytes": .integer(exchange.bodyBytes), "duration_seconds": .number(Double(exchange.durationMicroseconds) / 1e6),
        ]
    }

    private var found: String {
        switch exchange.found.kind {
        case .notLookedUp: "not_looked_up"
        case .nothing: "nothing"
        case .otherVariant: "other_variant"
        case .stored: "stored"
        }
    }

    private var freshness: JSONValue {
        guard exchange.found.kind == .stored else { return .null }
        let lifetime: JSONValue = exchange.found.lifetime < 0 ? .null : .integer(Int(clamping: exchange.found.lifetime))
        let left: JSONValue = exchange.found.lifetime < 0 ? .null : .integer(Int(clamping: exchange.found.lifetime - exchange.found.age))
        return [
            "lifetime": lifetime, "age": .integer(Int(clamping: exchange.found.age)), "left": left,
            "lifetime_source": .string(exchange.found.lifetimeSource.label),
        ]
    }

    private var requestContent: JSONValue {
        guard let outcome = exchange.content.outcome else { return .null }
        let seconds: JSONValue = exchange.content.microseconds < 0 ? .null : .number(Double(exchange.content.microseconds) / 1e6)
        return ["outcome": .string(outcome.rawValue), "wait_seconds": seconds]
    }

    private var upstream: JSONValue {
        guard exchange.upstream.microseconds >= 0 else { return .null }
        let times = exchange.upstream.times
        let seconds = { (end: Int32, start: Int32) -> JSONValue in
            end < 0 ? .null : .number(Double(max(0, end - max(0, start))) / 1e6)
        }
        let names = { (names: [String]) -> JSONValue? in names.isEmpty ? nil : .array(names.map { .string($0) }) }
        return [
            "fields_set": names(route.fields.set), "fields_removed": names(route.fields.removed),
            "status": exchange.upstream.status == 0 ? .null : .integer(Int(exchange.upstream.status)),
            "error": failure.map { .string($0.label) } ?? .null, "error_details": failure?.details.map { .string($0) } ?? .null,
            "protocol": exchange.upstream.spoken.map { .string($0.rawValue) } ?? .null,
            "resolve_seconds": seconds(times.resolved, 0), "connect_seconds": seconds(times.connected, times.resolved),
            "tls_seconds": times.secured <= 0 ? .null : seconds(times.secured, times.connected),
            "wait_seconds": seconds(times.firstByte, times.sent), "content_seconds": seconds(times.ended, times.firstByte),
            "total_seconds": .number(Double(exchange.upstream.microseconds) / 1e6),
        ]
    }

    /// The explanation as the field Cistern-Why: an item with parameters (RFC 9651 §3.3).
    public var field: [UInt8] {
        var text = "\(decision); reason=\(exchange.reason); id=\"\(record.id)\"; found=\(found)"
        if exchange.found.kind == .stored {
            if exchange.found.lifetime >= 0 { text += "; lifetime=\(exchange.found.lifetime)" }
            text += "; age=\(exchange.found.age)"
        }
        if exchange.isStored { text += "; stored" }
        if let reason = exchange.reasons.notStored { text += "; not-stored=\(reason.rawValue)" }
        if exchange.found.diskReads > 0 { text += "; disk-reads=\(exchange.found.diskReads)" }
        if let reply = exchange.found.fleetReply { text += "; shared=\(reply.outcome.rawValue)" }
        if isLookedUp { text += "; key=\(SecretNames.redacted(canonicalTarget).asStringItem)" }
        for advice in advice { text += "; setting=\"\(advice.setting)\"" }
        return Array("Cistern-Why: \(text)\r\n".utf8)
    }
}

extension ExchangeRecord {
    /// A word for the reason.
    public var reason: String {
        if let background { return background.cause.rawValue }
        switch result {
        case .hit: return mode == .live ? "fresh" : mode.rawValue
        case .stale: return "stale_while_revalidate"
        case .rescued: return upstream.failure?.label ?? "failed"
        case .error:
            if status == 499 { return "client_left" }
            switch reasons.refusal {
            case .offline: return "offline"
            case .onlyIfCached: return "only_if_cached"
            case .request(.access(let refusal)): return refusal.rawValue
            case .request: return "refused"
            case nil: return upstream.failure?.label ?? "refused"
            }
        case .miss, .revalidated, .collapsed, .bypass, .own: break
        }
        if mode == .record { return "record" }
        if let bypass = reasons.bypass { return bypass.rawValue }
        switch found.kind {
        case .notLookedUp: return "no_store"
        case .nothing: return "nothing_stored"
        case .otherVariant: return "other_variant_stored"
        case .stored: return reasons.validation?.rawValue ?? "stale"
        }
    }
}

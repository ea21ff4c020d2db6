// Helpers for the decision tables: stored responses by age, and decisions as short texts.

import CachePolicy
import Decisions
import HTTPCore

/// A stored response in a table, identified by name.
final class Stored {
    let name: String
    init(_ name: String) { self.name = name }
}

let noon = Timestamp(seconds: 1_795_000_000)

/// Metadata of a response that arrived `age` seconds before noon.
func metadata(
    age: Int64, lifetime: Int64? = 60, staleWhileRevalidate: Int64? = nil, status: Status = 200, _ flags: StoredFlags = [],
    order: UInt64 = 1
) -> StoredMetadata {
    let time = Timestamp(seconds: noon.seconds - age)
    var metadata = StoredMetadata(requestTime: time, responseTime: time, date: time)
    metadata.freshnessLifetime = lifetime
    metadata.staleWhileRevalidate = staleWhileRevalidate
    metadata.status = status
    metadata.flags = flags
    metadata.order = SentOrder(number: order)
    return metadata
}

func directives(_ value: String) -> RequestCacheControl {
    guard !value.isEmpty else { return RequestCacheControl() }
    var fields = Fields()
    fields.append(name: "Cache-Control", value: value)
    return RequestCacheControl(fields)
}

extension RequestDecision<Stored> {
    /// Case and payload, for comparison.
    var text: String {
        switch self {
        case .serve(let stored, let serving): "serve \(stored.name): \(serving.text)"
        case .serveAndRefresh(let stored, let serving, let cause, let place):
            "serve \(stored.name): \(serving.text), then \(cause.rawValue), \(place.sharing)"
        case .validate(let copy, let cause, let place): "validate \(copy.text): \(cause), \(place.sharing)"
        case .forward(let reason, let place): "forward: \(reason), \(place.sharing)"
        case .part(let copy): "part\(copy.map { " beside \($0.text)" } ?? "")"
        case .pass(let reason): "pass: \(reason.map { "\($0)" } ?? "no store")"
        case .refuse(.offline(let bypass)): "refuse: offline" + (bypass.map { ", \($0)" } ?? "")
        case .refuse(.onlyIfCached(let bypass)): "refuse: onlyIfCached" + (bypass.map { ", \($0)" } ?? "")
        case .refuse(let reason): "refuse: \(reason)"
        }
    }
}

extension StoredCopy<Stored> {
    fileprivate var text: String { "\(response.name) (\(mayRescue ? "may" : "may not") rescue)" }
}

extension ServingBasis {
    fileprivate var text: String { "\(cause), age \(age), \(ttl.map { "\($0) left" } ?? "nothing said")" }
}

extension OutcomeDecision<Stored> {
    var text: String {
        switch self {
        case .serveCollapsed(let stored, let age): "share \(stored.name), age \(age)"
        case .rescue(let rescue, let failure): "rescue with \(rescue.response.name) (\(rescue.source)), age \(rescue.age): \(failure.label)"
        case .fetchAgain(let isLast): isLast ? "ask anew, the last time" : "ask anew"
        case .fetchAlone: "ask alone"
        case .keepWaiting: "keep waiting"
        case .refuse(let failure, let reason): "refuse: \(failure.label), \(reason)"
        }
    }
}

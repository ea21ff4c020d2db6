// How a request's content was handled before the request was forwarded.

/// How a request's content was handled. The raw value is a label in metrics, logs and explanations.
public enum ContentOutcome: String, Sendable, CaseIterable {
    case whole
    case streamedTooLong = "streamed_too_long"
    case streamedNoRoom = "streamed_no_room"
    /// The client left or was too slow, or Cistern stopped; no request was sent.
    case unfinished
}

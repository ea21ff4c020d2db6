// What became of a request's content before the upstream was asked.

/// What became of a request's content: a label in metrics, logs and explanations.
public enum ContentOutcome: String, Sendable, CaseIterable {
    case whole
    case streamedTooLong = "streamed_too_long"
    case streamedNoRoom = "streamed_no_room"
    /// The client left, or was too slow, or Cistern stopped: nothing was asked.
    case unfinished
}

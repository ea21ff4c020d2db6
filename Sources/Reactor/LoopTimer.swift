// Timers of a loop: a binary heap by deadline. A cancelled timer stays in the heap without its action until its deadline, or until the
// heap has doubled and is cleaned up. So cancelled long timers do not accumulate.

/// A single call in the future. Belongs to the loop that created it.
public final class LoopTimer {
    let deadline: Int64
    private var action: (() -> Void)?

    init(deadline: Int64, action: @escaping () -> Void) {
        self.deadline = deadline
        self.action = action
    }

    public func cancel() { action = nil }

    public var isPending: Bool { action != nil }

    func fire() {
        let action = self.action
        self.action = nil
        action?()
    }
}

struct TimerHeap {
    private var heap: [LoopTimer] = []
    private var sweepAt = 64

    var isEmpty: Bool { heap.isEmpty }
    /// Number of timers, including cancelled ones that are still in the heap.
    var count: Int { heap.count }
    var next: Int64? { heap.first?.deadline }

    mutating func insert(_ timer: LoopTimer) {
        if heap.count >= sweepAt {
            let live = heap.filter(\.isPending)
            heap.removeAll(keepingCapacity: true)
            sweepAt = max(64, live.count * 2)
            for one in live { add(one) }
        }
        add(timer)
    }

    private mutating func add(_ timer: LoopTimer) {
        heap.append(timer)
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child].deadline < heap[parent].deadline else { break }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    mutating func removeFirst() -> LoopTimer {
        heap.swapAt(0, heap.count - 1)
        let first = heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child].deadline < heap[least].deadline {
                least = child
            }
            guard least != parent else { return first }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}

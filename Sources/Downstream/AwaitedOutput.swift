// Output of which a part is not there yet: it lies on the disk, or has to be made. Its client waits for it; nobody else does.

import Reactor

/// A response's way out to one client, which may have to wait for its next part.
protocol AwaitingOutput: AnyObject, SendableMetatype {
    var table: ClientConnections { get }
    var output: OutputQueue { get set }
    /// What goes out next is being read from the disk, or made.
    var isOutputAwaited: Bool { get set }
    var isClosed: Bool { get }

    /// The next part is there, and may have added to the memory that is held.
    func outputCame()
    /// The content cannot be made to its end.
    func outputBroke()
}

extension AwaitingOutput {
    func bringIn(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) {
        isOutputAwaited = true
        output.broughtIn = bytes.baseAddress
        let own = LoopBound(value: self)
        table.contentMemory?.bringIn(bytes, of: owner) { [loop = table.loop] in
            loop.execute { own.value.goOn() }
        }
    }

    func make(_ producer: any ContentProducer) {
        isOutputAwaited = true
        let own = LoopBound(value: self)
        producer.makeNext { own.value.made($0) }
    }

    private func made(_ piece: ProducedPiece) {
        guard !isClosed else { return }
        switch piece {
        case .bytes(let bytes): output.append(made: bytes)
        case .end: output.endProduced()
        case .broken:
            isOutputAwaited = false
            return outputBroke()
        }
        goOn()
    }

    private func goOn() {
        isOutputAwaited = false
        if !isClosed { outputCame() }
    }
}

// Shares that are divided among clients. One client gets at most half of the connections, and all clients of a share get about two thirds.
// So a client with slow requests does not exclude others from the share. Clients with one number, such as all clients of a Unix socket,
// count as one.

extension ConnectionShares {
    /// Requests of one client for one path family. The last eighth of the connections, and half of the queue, remain for other clients,
    /// because a client chooses its paths and thus the families.
    public static func family(_ family: UInt64, of client: UInt64) -> ConnectionShares {
        ConnectionShares(
            ConnectionShare(.clientInFamily(family, client: client), .part), ConnectionShare(.family(family), .twiceFree),
            ConnectionShare(.client(client), .exceptReserve))
    }

    /// Requests of one client with content that is streamed. Such a request occupies a connection for as long as its client chooses.
    public static func streamedContent(of client: UInt64, connections: Int) -> ConnectionShares {
        divided(.streamedContent, .clientStreamedContent(client), connections)
    }

    /// Requests of one client with streaming responses.
    static func streams(of client: UInt64, connections: Int) -> ConnectionShares { divided(.streams, .clientStreams(client), connections) }

    private static func divided(_ whole: ConnectionShare.Name, _ part: ConnectionShare.Name, _ connections: Int) -> ConnectionShares {
        let forAll = connections - Swift.max(1, connections / 3)
        return ConnectionShares(
            ConnectionShare(part, .connections(connections / 2)), ConnectionShare(whole, .connections(forAll)))
    }
}

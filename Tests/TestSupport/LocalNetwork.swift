// The network of the clients in plays.

import Addresses

extension NetworkList {
    package static func local() throws -> NetworkList { NetworkList([try IPNetwork("127.0.0.0/8")]) }
}

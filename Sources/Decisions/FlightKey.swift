// The key under which requests that can share a response are collapsed.

import HTTPCore

public typealias FlightKey = HashedKey

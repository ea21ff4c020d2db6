// The key under which requests that can have one response meet.

import HTTPCore

public typealias FlightKey = HashedKey

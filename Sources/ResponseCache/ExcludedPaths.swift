// Paths that the operator excludes from the cache (`cache: off`), as a selection of stored responses.

import CachePolicy

extension ResponseCache {
    public var excludedPaths: EntrySelection { EntrySelection(paths: settings.freshness.map(\.isOff)) }
}

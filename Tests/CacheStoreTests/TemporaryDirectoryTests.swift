// Tests the removal of temporary directories.

import CacheStore
import Glibc
import TestSupport
import Testing

@Suite("Temporary directories")
struct TemporaryDirectoryTests {
    @Test("a directory is removed with its subdirectories, and the target of a link stays")
    func removal() throws {
        let outside = TestTools.temporaryDirectory()
        try TestTools.write("kept", to: outside.path + "/kept")
        let directory = TestTools.temporaryDirectory()
        #expect(mkdir(directory.path + "/cache", 0o700) == 0 && mkdir(directory.path + "/cache/deep", 0o700) == 0)
        try TestTools.write("x", to: directory.path + "/cache/deep/file")
        #expect(symlink(outside.path, directory.path + "/cache/link") == 0)
        directory.remove()
        #expect(access(directory.path, F_OK) != 0)
        #expect(try TestTools.read(outside.path + "/kept") == "kept")
    }
}

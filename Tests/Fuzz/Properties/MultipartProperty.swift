// Multipart forms are equal under any boundary. Contents with different canonical forms are different requests.

import HTTPCore

@testable import CachePolicy

enum MultipartProperty {
    /// The first line is the boundary; the content follows.
    static func check(_ bytes: [UInt8]) throws(Violation) {
        let boundary = Array(bytes.prefix { $0 != 0x0a })
        let content = Array(bytes.dropFirst(boundary.count + 1))
        guard !boundary.isEmpty, boundary.allSatisfy(isTokenByte) else { return check(type: boundary, content) }
        let type = Array("multipart/form-data; boundary=".utf8)
        guard let canonical = MultipartForm.canonical(content, type: (type + boundary)[...], rules: nil) else { return }
        let other = Array("a-boundary-that-nobody-uses".utf8)
        guard content.firstRange(of: other) == nil else { return }
        let delimiter = Array("\r\n--".utf8)
        var rewritten: [UInt8] = []
        var rest = (delimiter.dropFirst(2) + content)[...]
        rest = ([0x0d, 0x0a] + content)[...]
        while let found = rest.firstRange(of: delimiter + boundary) {
            rewritten += rest[..<found.lowerBound] + delimiter + other
            rest = rest[found.upperBound...]
        }
        rewritten += rest
        let again = MultipartForm.canonical(Array(rewritten.dropFirst(2)), type: (type + other)[...], rules: nil)
        try expect(again == canonical, "another boundary gives another canonical form")
    }

    /// Unusual types must not trap.
    private static func check(type: [UInt8], _ content: [UInt8]) {
        _ = MultipartForm.canonical(content, type: type[...], rules: nil)
    }
}

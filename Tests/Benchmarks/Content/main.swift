// Measures the CPU time of processing content on one thread, by kind and length of content. Run it on a quiet machine:
// `swift run -c release measure-content`. 64 KiB is the most that an event loop processes in one step.

import CachePolicy
import ContentCodings
import Glibc
import HTTPCore
import JSON

func threadTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
}

/// Prints the median of several rounds, in milliseconds.
func measure(_ name: String, rounds: Int = 9, _ work: () -> Void) {
    work()
    let times = (0..<rounds).map { _ in
        let start = threadTime()
        work()
        return threadTime() - start
    }
    let micros = (times.sorted()[rounds / 2] * 1e3).rounded()
    print(name + String(repeating: " ", count: max(1, 44 - name.count)) + "\(micros / 1e3) ms")
}

func list(_ bytes: Int) -> [UInt8] {
    var text = "{\"data\":["
    var number = 0
    while text.utf8.count < bytes {
        if number > 0 { text += "," }
        text += "{\"id\":\(number),\"name\":\"user number \(number)\",\"email\":\"user\(number)@example.com\",\"active\":true,"
        text += "\"score\":\(number).5,\"tags\":[\"a\",\"bc\"],\"address\":{\"street\":\"Some street 12\",\"city\":\"Berlin\"}}"
        number += 1
    }
    return Array((text + "]}").utf8)
}

func nested(_ bytes: Int, depth: Int) -> [UInt8] {
    let one = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    return Array(("[" + Array(repeating: one, count: bytes / (one.utf8.count + 1)).joined(separator: ",") + "]").utf8)
}

let pointers = ["/data/3/id", "/error", "/data/7/address/city"].compactMap(JSONPointer.init)
let fields: Fields = {
    var fields = Fields()
    fields.append(name: "content-type", value: "application/json")
    return fields
}()
let contents: [(String, [UInt8])] = [
    ("1 KB", list(1 << 10)), ("10 KB", list(10 << 10)), ("64 KiB", list(64 << 10)), ("64 KiB nested 60 deep", nested(64 << 10, depth: 60)),
    ("64 KiB empty arrays", nested(64 << 10, depth: 1)), ("8 MiB", list(8 << 20)), ("8 MiB nested 60 deep", nested(8 << 20, depth: 60)),
]
for (name, text) in contents {
    measure("\(name): checked") { precondition(JSONTextChecker.check(text.span) == .valid) }
    measure("\(name): three pointers") { precondition(JSONPointer.found(pointers, in: text.span).count == 3) }
    measure("\(name): canonical form") { precondition(CanonicalJSON.make(text.span) != nil) }
    measure("\(name): identity of a POST") {
        precondition(RequestContent.identity(method: .post, fields: fields, content: text.span, rules: nil) != nil)
    }
    let encoder = GzipEncoder()
    precondition(encoder.begin())
    let coded = text.withUnsafeBytes { encoder.code($0, isLast: true) }
    measure("\(name): gzip taken off") { precondition((try? ContentDecoder.decode(coded, .gzip, limit: 16 << 20)) == text) }
    measure("\(name): gzip put on the first 64 KiB") {
        precondition(encoder.begin())
        text.prefix(64 << 10).withUnsafeBytes { precondition(!encoder.code($0, isLast: true).isEmpty) }
    }
}
let member = Array("[]".utf8).withUnsafeBytes { bytes in
    let encoder = GzipEncoder()
    return encoder.begin() ? encoder.code(bytes, isLast: true) : []
}
let members = Array(repeatElement(member, count: (64 << 10) / member.count).joined())
measure("64 KiB of gzip members of two bytes each") { _ = try? ContentDecoder.decode(members, .gzip, limit: 1 << 20) }
let words = Array(String(repeating: "mutation ", count: (8 << 20) / 9).utf8)
var plain = Fields()
plain.append(name: "content-type", value: "text/plain")
measure("8 MiB of words, identity of a POST") { _ = RequestContent.identity(method: .post, fields: plain, content: words.span, rules: nil) }
let form = Array(Array(repeating: "a=b", count: (8 << 20) / 4).joined(separator: "&").utf8)
var formFields = Fields()
formFields.append(name: "content-type", value: "application/x-www-form-urlencoded")
measure("8 MiB of form, identity of a POST", rounds: 3) {
    _ = RequestContent.identity(method: .post, fields: formFields, content: form.span, rules: nil)
}
let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n"
let parts = Array((String(repeating: part, count: (8 << 20) / part.utf8.count) + "--b--\r\n").utf8)
var partFields = Fields()
partFields.append(name: "content-type", value: "multipart/form-data; boundary=b")
measure("8 MiB of parts, identity of a POST", rounds: 3) {
    _ = RequestContent.identity(method: .post, fields: partFields, content: parts.span, rules: nil)
}

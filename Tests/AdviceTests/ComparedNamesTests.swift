// Tests of arguments and fields that make no difference: names only, no secrets, and never between users.

import Testing

@testable import Advice

@Suite("Advice: arguments and fields without effect")
struct ComparedNamesTests {
    private func names(_ fetches: (inout Observed) -> Void) -> [String: ComparedName] {
        var observed = Observed()
        observed.admit("/list")
        fetches(&observed)
        let names = observed.summary("/list")?.names ?? []
        return Dictionary(uniqueKeysWithValues: names.map { (String(decoding: $0.name, as: UTF8.self), $0) })
    }

    private func good(_ data: UInt64) -> ObservedFetch.Outcome { .good(.hash(data), isStated: false) }

    @Test("an argument is compared with its other values, if everything else is equal")
    func arguments() {
        let names = names { observed in
            for number in 0..<50 {
                observed.fetch("/list?page=\(number % 2)&utm_source=\(number)", good(UInt64(number % 2) + 7))
                observed.fetch("/list?utm_source=x\(number)&lang=\(number)", good(UInt64(number) + 100))
            }
        }
        #expect((names["utm_source"]?.equal ?? 0) > 20 && names["utm_source"]?.different == 0)
        #expect(names["page"]?.equal == 0)
        #expect(names["lang"].map { $0.equal == 0 } == true)
    }

    @Test("an argument that changes the data is seen, in any order of arguments")
    func different() {
        let names = names { observed in
            for number in 0..<20 {
                observed.fetch(number % 2 == 0 ? "/list?a=1&page=\(number)" : "/list?page=\(number)&a=1", good(UInt64(number) + 1))
            }
        }
        #expect(names["page"]?.doubtful == 19 && names["page"]?.equal == 0)
    }

    @Test("a change of the data between two values is doubtful, and requests with other unknown fields are not compared")
    func doubtful() {
        let names = names { observed in
            for number in 0..<60 { observed.fetch("/list?utm=\(number)", good(number < 30 ? 7 : 8)) }
        }
        let certain = self.names { observed in
            for value in ["a", "b", "debug", "a"] { observed.fetch("/list?x=\(value)", good(value == "debug" ? 8 : 7)) }
        }
        #expect(certain["x"].map { ($0.equal, $0.different, $0.doubtful) == (1, 1, 0) } == true)
        #expect(names["utm"].map { ($0.equal, $0.different, $0.doubtful) == (58, 0, 1) } == true)
        let unlike = self.names { observed in
            for number in 0..<60 { observed.fetch("/list?utm=\(number)", good(7), likeness: UInt64(number) + 1) }
        }
        #expect(unlike["utm"]?.equal == 0)
    }

    @Test("responses of different times and of different users are not compared")
    func separate() {
        let late = names { observed in
            for number in 0..<50 {
                observed.now += 61_000
                observed.fetch("/list?a=\(number)", good(7))
            }
        }
        #expect(late["a"]?.equal == 0)
        let users = names { observed in
            for number in 0..<50 { observed.fetch("/list?a=\(number)", good(7), partition: UInt64(number + 1)) }
        }
        #expect(users["a"]?.equal == 0)
    }

    @Test(
        "secrets, values without a name, long and strange names are not kept",
        arguments: [
            "api_key=1", "access_token=1", "eyJhbGciOi", "a%00b=1", String(repeating: "a", count: 41) + "=1", "\u{1b}[31m=1", "é=1", "=1",
        ])
    func unnamed(_ argument: String) {
        let names = names { observed in
            for number in 0..<50 { observed.fetch("/list?\(argument)\(number)", good(7)) }
        }
        #expect(names.isEmpty)
    }

    @Test("the number of names is limited; targets with very many arguments are not compared")
    func limits() {
        let many = names { observed in
            for number in 0..<500 { observed.fetch("/list?a\(number)=1", good(7)) }
        }
        #expect(many.count <= ComparedNames.nameLimit)
        let long = names { observed in
            observed.fetch("/list?" + (0..<1_000).map { "a\($0)=1" }.joined(separator: "&"), good(7))
        }
        #expect(long.isEmpty)
    }

    @Test("fields of Vary are compared, without credentials, Origin and Accept-Encoding")
    func fields() {
        let names = names { observed in
            for number in 0..<60 {
                observed.fetch(
                    "/list?a=1", good(7), request: [("X-Device", "\(number)"), ("Cookie", "\(number)"), ("Origin", "https://\(number)")],
                    vary: "X-Device, Origin, Cookie, Authorization, Accept-Encoding")
            }
        }
        #expect(names["x-device"]?.equal ?? 0 > 40 && names["x-device"]?.different == 0)
        #expect(Set(names.keys).isSubset(of: ["x-device", "a"]))
    }

    @Test("variants do not count as changes")
    func variants() {
        var observed = Observed()
        observed.admit("/list")
        for number in 0..<40 {
            let language = number % 2 == 0 ? "de" : "en"
            observed.fetch("/list", good(number % 2 == 0 ? 7 : 8), request: [("Accept-Language", language)], vary: "Accept-Language")
        }
        // The first response names the field.
        #expect(observed.summary("/list")?.counts.changed == 1)
        #expect(observed.summary("/list")?.varying == [Array("accept-language".utf8)])
    }
}

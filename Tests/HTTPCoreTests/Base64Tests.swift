// Tests of Base64 with both alphabets.

import HTTPCore
import Testing

@Suite("Base64")
struct Base64Tests {
    @Test(
        "text is encoded to Base64 and decoded again",
        arguments: [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy"), ("~~?", "fn4/")])
    func both(plain: String, coded: String) {
        #expect(Base64.encode(Array(plain.utf8)) == coded)
        #expect(Base64.decode(coded) == Array(plain.utf8))
        #expect(Base64.decode(coded.map { "\($0) \n" }.joined()) == Array(plain.utf8))
        let url = coded.filter { $0 != "=" }.replacing("/", with: "_")
        #expect(Base64.encodeURL(Array(plain.utf8)) == url)
        #expect(Base64.decodeURL(Array(url.utf8)[...]) == Array(plain.utf8))
    }

    @Test("text that is not Base64 is rejected", arguments: ["Z", "Zg=", "Zg=a", "====", "Zm9*", "=Zg=", "fn4_"])
    func malformed(text: String) { #expect(Base64.decode(text) == nil) }

    @Test("each value has exactly one base64url encoding", arguments: ["Z", "Zh", "Zm9=", "Zg==", "fn4/", "fn 4", "Zm9vY"])
    func strict(text: String) { #expect(Base64.decodeURL(Array(text.utf8)[...]) == nil) }
}

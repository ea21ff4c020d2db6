// The fuzzer: libFuzzer calls one property with generated inputs. Usage: `fuzz PROPERTY [libFuzzer's arguments]`; see the Makefile. This
// main function selects the property; libFuzzer's own one is linked but not used.

import Glibc

@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
    _ check: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

private let name = CommandLine.arguments.dropFirst().first ?? ""
private let property = Property(rawValue: name)
guard property != nil else {
    print("usage: fuzz PROPERTY [libFuzzer's arguments]; properties: \(Property.allCases.map(\.rawValue).joined(separator: " "))")
    exit(2)
}
private let rest = [CommandLine.arguments[0]] + CommandLine.arguments.dropFirst(2)
private var argumentCount = CInt(rest.count)
private var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = .allocate(capacity: rest.count + 1)
for (index, argument) in rest.enumerated() { arguments?[index] = strdup(argument) }
arguments?[rest.count] = nil

/// libFuzzer's own main function requires this name.
@_cdecl("LLVMFuzzerTestOneInput")
func check(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do throws(Violation) {
        try property?.check(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        fatalError("VIOLATION: \(error)")
    }
    return 0
}

exit(runFuzzer(&argumentCount, &arguments, check))

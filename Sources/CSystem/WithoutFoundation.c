// Keeps FoundationEssentials out of the release, which makes the program a quarter smaller. Only ArgumentParser refers to it, with the
// symbols below: it asks whether an error is a LocalizedError, and prints JSON for --experimental-dump-help. Cistern throws no
// LocalizedError. Debug builds link FoundationEssentials. `.ci/check-sources` reports a release that contains it, for example after an
// update of ArgumentParser.
#ifdef CSYSTEM_WITHOUT_FOUNDATION

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

__attribute__((used, noreturn)) static void csystem_refuse_json(void) {
    static const char message[] = "cistern: a release has no --experimental-dump-help; a debug build has it\n";
    if (write(STDERR_FILENO, message, strlen(message)) < 0) abort();
    _exit(EX_USAGE);
}

#define REFUSED(symbol) __asm__(".globl \"" symbol "\"\n.hidden \"" symbol "\"\n.set \"" symbol "\", csystem_refuse_json")

// JSONEncoder: its metadata, initializer and formatting options.
REFUSED("$s20FoundationEssentials11JSONEncoderCMa");
REFUSED("$s20FoundationEssentials11JSONEncoderCACycfc");
REFUSED("$s20FoundationEssentials11JSONEncoderC16OutputFormattingV10sortedKeysAEvau");
REFUSED("$s20FoundationEssentials11JSONEncoderC16OutputFormattingV13prettyPrintedAEvau");
// String(data:encoding:) and String.Encoding.utf8.
REFUSED("$sSS20FoundationEssentialsE4data8encodingSSSgAA4DataVh_SSAAE8EncodingVtcfC");
REFUSED("$sSS20FoundationEssentialsE8EncodingV4utf8ACvau");

// The descriptor of a protocol without requirements, to which no type conforms. Fields: flags (a unique protocol that is not limited to
// classes), module, name, number of requirements in the signature, number of requirements, names of associated types. References are
// relative to their own address. A module's fields are flags, parent and name.
__asm__(
    ".pushsection .rodata.csystem_localized_error, \"a\", %progbits\n"
    ".balign 4\n"
    ".globl \"$s20FoundationEssentials14LocalizedErrorMp\"\n"
    ".hidden \"$s20FoundationEssentials14LocalizedErrorMp\"\n"
    "\"$s20FoundationEssentials14LocalizedErrorMp\":\n"
    ".long 0x10043\n"
    ".long csystem_foundation - .\n"
    ".long csystem_localized_error_name - .\n"
    ".long 0\n"
    ".long 0\n"
    ".long 0\n"
    "csystem_foundation:\n"
    ".long 0x40\n"
    ".long 0\n"
    ".long csystem_foundation_name - .\n"
    "csystem_localized_error_name: .asciz \"LocalizedError\"\n"
    "csystem_foundation_name: .asciz \"FoundationEssentials\"\n"
    ".popsection\n");

#endif

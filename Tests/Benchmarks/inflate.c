// Measures decoding by the library alone: CPU microseconds for one content, decoded repeatedly.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zlib.h>

int main(int count, char **arguments) {
    if (count < 3) return 1;
    FILE *file = fopen(arguments[1], "rb");
    static unsigned char coded[1 << 20], plain[1 << 20];
    size_t length = fread(coded, 1, sizeof coded, file);
    int rounds = atoi(arguments[2]);
    z_stream stream = {0};
    inflateInit2(&stream, 16 + MAX_WBITS);
    clock_t began = clock();
    for (int round = 0; round < rounds; round++) {
        inflateReset(&stream);
        stream.next_in = coded, stream.avail_in = length, stream.next_out = plain, stream.avail_out = sizeof plain;
        if (inflate(&stream, Z_FINISH) != Z_STREAM_END) return 2;
    }
    printf("%.3f\n", (double)(clock() - began) / CLOCKS_PER_SEC * 1e6 / rounds);
    return 0;
}

#!/usr/bin/env bash
# Compiles the C code for arm64 against Debian's arm64 libraries, with warnings as errors, and runs arm64_test.c with qemu: arm64_test.sh
# FOLDER. Its results must equal those of this machine. Swift code is not tried: the toolchain has no standard library for arm64. Needs a
# mirror, and root for debootstrap.
set -eu -o pipefail
mkdir -p "$1"
folder=$(realpath "$1")
cd "$(dirname "$0")/../.."

! grep -rnE 'x86_64|amd64' Makefile Package.swift Sources docker/Dockerfile Configuration/dist Configuration/debian Configuration/systemd || {
    echo "these lines name an architecture" >&2
    exit 1
}
system=$folder/system
packages=libc6-dev,linux-libc-dev,libssl-dev,libsodium-dev,libxxhash-dev,libyaml-dev,libhiredis-dev
packages+=,zlib1g-dev,libzstd-dev,libbrotli-dev,libnghttp2-dev,libcurl4-openssl-dev

# The headers and libraries of arm64, unpacked without running any of their scripts.
if [ ! -e "$folder/complete" ]; then
    rm -rf "$folder/download" "$system"
    debootstrap --arch=arm64 --variant=minbase --download-only --include="$packages" "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
        "$folder/download" > "$folder/debootstrap.log"
    mkdir -p "$system"
    for file in "$folder"/download/var/cache/apt/archives/*.deb; do
        case ${file##*/} in
        lib* | zlib* | linux-libc-dev*) dpkg-deb -x "$file" "$system" ;;
        esac
    done
    touch "$folder/complete"
fi

sources=(Sources/CSystem/CSystem.c Sources/CSystem/WithoutFoundation.c Sources/CTLS/*.c Tests/Packaging/arm64_test.c)
flags=(-std=gnu17 -O2 -g -Wall -Werror -DCSYSTEM_WITHOUT_FOUNDATION
    -ISources/CSystem/include -ISources/CTLS/include -ISources/CTLS -ISources)
# The static libraries that the release contains, and the shared ones.
libraries=(-l:libsodium.a -l:libxxhash.a -l:libyaml.a -l:libhiredis.a
    -lssl -lcrypto -lz -lzstd -lbrotlienc -lbrotlidec -lnghttp2 -lcurl -lpthread)
folders=$system/usr/lib/aarch64-linux-gnu:$system/lib/aarch64-linux-gnu

cc "${flags[@]}" -o "$folder/native" "${sources[@]}" "${libraries[@]}"
aarch64-linux-gnu-gcc --sysroot="$system" "${flags[@]}" -I"$system/usr/include/aarch64-linux-gnu" \
    "-L${folders%:*}" "-L${folders#*:}" "-Wl,-rpath-link,$folders" \
    -o "$folder/arm64" "${sources[@]}" "${libraries[@]}"
file -b "$folder/arm64" | cut -d, -f1-2 || true
"$folder/native" > "$folder/native.txt"
qemu-aarch64-static -L "$system" -E "LD_LIBRARY_PATH=$folders" "$folder/arm64" > "$folder/arm64.txt"
diff "$folder/native.txt" "$folder/arm64.txt"
cat "$folder/arm64.txt"
echo "arm64 and this machine agree on $(wc -l < "$folder/arm64.txt") results"

#!/usr/bin/env bash
# Fuzzes each property for so many seconds and prints how many inputs were tried. Ends with 1 where a property is broken.
#
#   fuzz.sh PROGRAM SECONDS [PROPERTY…]
#
# FUZZ_SEED is the seed of libFuzzer.
set -u
cd "$(dirname "$0")/../.."
program=$1
seconds=$2
shift 2
properties=("$@")
[ ${#properties[@]} -gt 0 ] || properties=($(ls Tests/Fuzz/Corpus))
# A trap would otherwise be followed by minutes of looking for names.
export SWIFT_BACKTRACE=enable=no
# Where each piece of memory was asked for is not noted down: that takes most of the time.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:malloc_context_size=1
failed=0
for property in "${properties[@]}"; do
    corpus=.build-fuzz/corpus/$property
    findings=.build-fuzz/findings/$property
    mkdir -p "$corpus" "$findings"
    log=.build-fuzz/$property.log
    "$program" "$property" "$corpus" "Tests/Fuzz/Corpus/$property" -max_total_time="$seconds" -max_len=1024 -timeout=20 -rss_limit_mb=2048 \
        ${FUZZ_SEED:+-seed="$FUZZ_SEED"} -print_final_stats=1 -artifact_prefix="$findings/" >"$log" 2>&1
    status=$?
    tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    printf '%-16s %12s tried, %s inputs kept\n' "$property" "${tried:-?}" "$(ls "$corpus" | wc -l)"
    if [ $status -ne 0 ]; then
        failed=1
        grep -E 'VIOLATION|Fatal error|ERROR: |Test unit written' "$log"
    fi
done
exit $failed

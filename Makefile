# Cistern: commands for developers and first users.
#
#   make run UPSTREAM=https://api.example.com     build a release and start it on port 8080
#   make run                                      try it with a sample API, without internet
#   make test                                     build and run all tests
#   make help                                     the rest

SHELL := /bin/bash
SWIFT ?= swift
PORT ?= 8080
# The program depends on the source only: it contains no path of this machine, and looks for libraries in the system's folders only.
# Optimization at link time takes some minutes. It reduces the instructions of a request by 9 %, and the binary by a ninth. LTO= omits it.
LTO = --experimental-lto-mode full
# How often the release's code ran in the benchmarks (`make profile`): the compiler optimizes the rest for size and places it elsewhere.
# This reduces the CPU time of a request by 2 to 15 %. Changed functions are optimized without it. PROFILE= omits it.
PROFILE = Tests/Benchmarks/release.profdata
# Names of private functions in the profile contain no directories.
PROFILE_NAMES = -Xswiftc -Xllvm -Xswiftc -static-func-full-module-prefix=false
# A copy with its checksum as its name, so that a renewed profile compiles everything again.
PROFILE_COPY = $(if $(PROFILE),.build/$(shell cksum < $(PROFILE) | cut -d' ' -f1).profdata)
PROFILED = $(if $(PROFILE),-Xswiftc -Xfrontend -Xswiftc -ir-profile-use=$(CURDIR)/$(PROFILE_COPY) $(PROFILE_NAMES))
RELEASE = -c release --static-swift-stdlib --disable-local-rpath $(LTO) $(PROFILED) -Xcc -ffile-prefix-map=$(CURDIR)=. -Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=.
BUILD_PACKAGES := libcurl4-openssl-dev libssl-dev libyaml-dev libsodium-dev libxxhash-dev zlib1g-dev libbrotli-dev libzstd-dev libnghttp2-dev libhiredis-dev pkg-config
TEST_PACKAGES := prometheus redis-server openssl curl nginx groff-base util-linux
BENCH_PACKAGES := nginx nghttp2-client haproxy wrk gcc libc6-dev python3 openssl
CLIENT_PACKAGES := python3 python3-requests python3-httpx python3-h2 curl openssl nghttp2-client util-linux
CONFORMANCE_PACKAGES := python3 python3-hpack
FAULT_PACKAGES := python3 openssl util-linux
ALERT_PACKAGES := python3 prometheus redis-server openssl gcc libc6-dev util-linux
FLEET_PACKAGES := python3 redis-server openssl faketime
DEB_PACKAGES := debhelper dpkg-dev fakeroot lintian systemd
DIST_TEST_PACKAGES := debootstrap python3 python3-venv util-linux
ARM64_PACKAGES := qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross debootstrap gcc libc6-dev
IMAGE_PACKAGES := buildah python3 binutils
# The binary to package and test. A path other than the default must exist.
BINARY ?= .build/release/cistern
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cistern

.PHONY: run build test browser bench profile kill faults fuzz fuzz-merge stress lint image image-base sanitize soak compare clients conformance clean help packages test-packages bench-packages fault-packages client-packages conformance-packages dist dist-test dist-test-packages release-notes arm64-test arm64-packages deb deb-packages image-test image-packages manifests takeovers writers fleet fleet-days scale fleet-packages alerts alert-packages browser-packages

# Starts sooner without optimization at link time. Other toolchains may not read the profile.
run: LTO =
run: PROFILE =
run: build
ifdef UPSTREAM
	.build/release/cistern serve --upstream "$(UPSTREAM)" --listen "127.0.0.1:$(PORT)" --cache-dir "$(CACHE)"
else
	.build/release/cistern demo --listen "127.0.0.1:$(PORT)"
endif

build: packages
	$(if $(PROFILE),@mkdir -p .build && { cmp -s $(PROFILE) $(PROFILE_COPY) || cp -f $(PROFILE) $(PROFILE_COPY); })
	$(SWIFT) build $(RELEASE) --product cistern

# FAST=1 skips tests that need seconds of CPU time, and runs the rest with one client protocol each. Tests that depend on real time run
# alone, afterwards.
test: packages test-packages
	$(if $(FAST),FAST_TESTS=1) SWIFT="$(SWIFT)" Tests/run

# Compares with nginx, HAProxy and minimal servers in C on this machine. ARGUMENTS=--write replaces the table in Tests/Benchmarks/README.md,
# ARGUMENTS="--growth --write" the figures.
bench: build bench-packages
	strip -o .build/cistern-stripped .build/release/cistern
	Tests/Benchmarks/bench.py --cistern .build/cistern-stripped $(ARGUMENTS)

# Renews the profile: builds a release that counts how often its code runs, and runs the benchmarks with it. 15 minutes.
profile: LTO =
profile: PROFILE =
profile: TOOLCHAIN = $(shell dirname $$(dirname $$(readlink -f $$(command -v $(SWIFT)))))
profile: packages bench-packages
	rm -rf .build-profile/counts
	$(SWIFT) build $(RELEASE) --product cistern --scratch-path .build-profile -Xswiftc -Xfrontend -Xswiftc -ir-profile-generate \
		$(PROFILE_NAMES) -Xlinker -u__llvm_profile_runtime \
		-Xlinker $(wildcard $(TOOLCHAIN)/lib/clang/*/lib/linux/libclang_rt.profile-$(shell uname -m).a)
	LLVM_PROFILE_FILE=$(CURDIR)/.build-profile/counts/%p.profraw \
		Tests/Benchmarks/bench.py --cistern .build-profile/release/cistern --rounds 1
	$(TOOLCHAIN)/bin/llvm-profdata merge --sparse --failure-mode=all -o Tests/Benchmarks/release.profdata .build-profile/counts/*.profraw

# Kills the proxy while it stores, while it purges and after writes, and checks the responses after the restart.
kill: build
	Tests/Durability/kill_rounds.py --cistern .build/release/cistern $(ARGUMENTS)
	Tests/Durability/purge_rounds.py --cistern .build/release/cistern $(ARGUMENTS)
	Tests/Durability/write_rounds.py --cistern .build/release/cistern $(ARGUMENTS)

# Runs all known kinds of upstream failure against the release, with and without a stored response; results are in Tests/Faults/README.md.
faults: build fault-packages
	Tests/Faults/faults.py --cistern .build/release/cistern $(ARGUMENTS)

# Fuzzes all parsers of untrusted bytes for TIME seconds each; TARGET=… selects one property; see Tests/Fuzz/README.md.
# SANITIZE=fuzzer disables AddressSanitizer.
fuzz: SANITIZE ?= fuzzer,address
fuzz: packages
	CISTERN_FUZZ=1 $(SWIFT) build -c release --product fuzz --scratch-path .build-fuzz -Xswiftc -enable-testing \
		-Xswiftc -sanitize=$(SANITIZE) -Xswiftc -use-ld=lld
	Tests/Fuzz/fuzz.sh .build-fuzz/release/fuzz $(or $(TIME),60) $(TARGET)

# Copies new inputs that increase the coverage into the repository.
fuzz-merge:
	for property in $(or $(TARGET),$(notdir $(wildcard Tests/Fuzz/Corpus/*))); do \
		SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=detect_leaks=0 .build-fuzz/release/fuzz $$property -merge=1 -max_len=1024 \
			Tests/Fuzz/Corpus/$$property .build-fuzz/corpus/$$property || exit 1; \
	done

# Stress test for TIME seconds: many users, a faulty upstream, purges and kills. Every response is checked; see Tests/Stress/README.md.
stress: build fault-packages
	Tests/Stress/stress.py --cistern .build/release/cistern --time $(or $(TIME),120) $(if $(SEED),--seed $(SEED)) $(if $(TLS),--tls) $(if $(HTTP2),--http2)

# Tests the HTTP/2 of the release against the RFCs, section by section; see Tests/Conformance/README.md.
conformance: build conformance-packages
	Tests/Conformance/http2.py --cistern .build/release/cistern $(ARGUMENTS)

# Tests common HTTP clients with each client protocol; see Tests/Clients/README.md.
clients: build client-packages
	Tests/Clients/clients.py --cistern .build/release/cistern

# Compares Cistern's parsers with others, and Cistern with the installed caches.
compare: build
	Tests/Comparison/compare_parsers.sh
	Tests/Comparison/caches.py --cistern .build/release/cistern

# Tests a web app of another origin and the status page in Chromium, before and during an outage; skipped if Chromium is not installed.
browser: build browser-packages
	Tests/Browser/browser.py --cistern .build/release/cistern
	Tests/Browser/status.py --cistern .build/release/cistern

# Random walks: WALKS times as many schedules as in the tests, from another SEED.
WALK_TESTS := CachePolicyTests.RandomWalk|CrowdSchedule|DiskSchedule|IdentityTermWalk|ListingTests/walk|MarkWritingTests/walk|StoredPathsTests/walk|StoringWalk|FailureWalk|ConnectionQueueTests/walk|randomShares|UnknownFieldWalk|SharedRescueWalk|LookUpWalk/walk

soak: packages
	CISTERN_WALKS=$(or $(WALKS),10)x CISTERN_SEED=$(or $(SEED),4711) $(SWIFT) test --filter '$(WALK_TESTS)'

sanitize: packages test-packages
	SWIFT="$(SWIFT)" Tests/run --sanitize=thread --scratch-path .build-thread
	LSAN_OPTIONS=suppressions=$(CURDIR)/Tests/Sanitizers/leaks.txt SWIFT="$(SWIFT)" Tests/run --sanitize=address --scratch-path .build-address

# Take-overs between processes, and reloads, under load.
takeovers: build bench-packages
	Tests/Operation/takeovers.py --cistern .build/release/cistern $(ARGUMENTS)

# Writers and readers during take-overs: no read may return the state before a completed write.
writers: build fault-packages
	Tests/Operation/writers.py --cistern .build/release/cistern $(ARGUMENTS)

# Four nodes that share through a Cluster of six servers, with limits on the results; outsiders, a distant Redis server, and two versions
# side by side (OLD=BINARY is the former one; by default it is built); and ten thousand random schedules of a model of the fleet.
fleet: build bench-packages test-packages
	Tests/Operation/fleet.py --cistern .build/release/cistern $(ARGUMENTS)
	Tests/Operation/fleet-edges.py --cistern .build/release/cistern $(if $(OLD),--old $(OLD))
	CISTERN_WALKS=10000 CISTERN_SEED=$(or $(SEED),4711) $(SWIFT) test --filter FleetTests.RandomWalkTests

# Measures the cost of following the fleet log with up to 300 nodes; ARGUMENTS=--write updates the table of Tests/Operation/README.md.
scale: build bench-packages test-packages
	Tests/Operation/scale.py --cistern .build/release/cistern $(ARGUMENTS)

# Three nodes under faults: network splits, a slow or lost Redis server, wrong permissions, forged records, wrong clocks; another server
# with ARGUMENTS="--server PATH".
fleet-days: build fleet-packages
	Tests/Operation/fleet-days.py --cistern .build/release/cistern $(ARGUMENTS)

# Tests the alerts in a real Prometheus with scenes of failures, and twenty without. Takes four minutes with a clock that runs 30 times as
# fast. ARGUMENTS=--quick runs a few scenes; ARGUMENTS=--write updates Tests/Scenes/outputs.json.
alerts: build alert-packages
	Tests/Scenes/alerts.py --cistern .build/release/cistern $(ARGUMENTS)

lint:
	$(SWIFT) format lint --strict --recursive Sources Tests Package.swift
	.ci/check-sources

# The container image. PLATFORM=linux/arm64 builds it for another architecture, FORMAT=oci in the OCI format, which has no health check.
BUILD_IMAGE ?= buildah bud --isolation chroot --format $(or $(FORMAT),docker)
SOURCE ?= $(shell git config --get remote.origin.url)

image:
	$(BUILD_IMAGE) $(if $(PLATFORM),--platform $(PLATFORM)) -t $(or $(TAG),cistern) -f docker/Dockerfile $(IMAGE_ARGUMENTS) \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD) --build-arg SOURCE=$(SOURCE) .

# Pins the newest base image in docker/Dockerfile by its digest. Needs skopeo, and a registry.
image-base:
	digest=$$(skopeo inspect --format '{{.Digest}}' docker://docker.io/library/debian:bookworm-slim) && \
		sed -i "s|^ARG BASE_IMAGE=.*|ARG BASE_IMAGE=docker.io/library/debian@$$digest|" docker/Dockerfile

# Tests the container image. Without a registry: ARGUMENTS="--binary .build/release/cistern --base A_DEBIAN".
image-test: image-packages $(if $(findstring --binary,$(ARGUMENTS)),,image)
	Tests/Packaging/image_test.py $(ARGUMENTS)

# Validates the files for Kubernetes, Compose and workflows against their schemas, and the settings in them. The validators come from PyPI.
manifests: dist-test-packages $(if $(filter .build/release/cistern,$(BINARY)),build)
	python3 -m venv .build/manifests
	.build/manifests/bin/pip install -q kubernetes-validate==1.37.0 check-jsonschema==0.39.0 pyyaml
	.build/manifests/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.build/manifests/bin/check-jsonschema --builtin-schema vendor.compose-spec docker/compose*.yaml
	.build/manifests/bin/python Tests/Packaging/manifests.py --cistern $(BINARY)

# The files of a release in .build/dist: a tarball, a Debian package, the software bill of materials (CycloneDX) and SHA256SUMS. Fails if
# Debian has a newer version of a library that is linked in. Packing one program twice gives equal files.
VERSION = $(shell sed -n 's/.*static let text = "\(.*\)"/\1/p' Sources/cistern/Cistern.swift)

dist: $(if $(filter .build/release/cistern,$(BINARY)),build) packages deb-packages
	Configuration/dist/make-dist $(BINARY) $(VERSION) .build/dist

# Tests these files in new roots of SUITES, with libcurl's package only: start, rescue, upgrade of a previous version with its store
# (OLD=PACKAGE is that version's; by default it is the new package with a lower version), removal. Needs root and a mirror.
SUITES ?= bookworm trixie

dist-test: dist dist-test-packages
	python3 -m venv .build/sbom
	.build/sbom/bin/pip install -q 'cyclonedx-python-lib[json-validation]==11.12.0'
	.build/sbom/bin/python Tests/Packaging/dist_test.py .build/dist --suites $(SUITES) $(if $(OLD),--old $(OLD)) $(ARGUMENTS)

# Prints the section of the changelog for TAG. Fails if there is none, or if the program has another version.
release-notes:
	@[ "$(TAG)" = "v$(VERSION)" ] || { echo "the tag is $(TAG), and the version of the program $(VERSION)" >&2; exit 1; }
	@awk -v title="## $(VERSION)" '$$0 == title { found = 1; next } /^## / { found = 0 } found { print; lines++ } END { exit !lines }' \
		.github/CHANGELOG.md || { echo ".github/CHANGELOG.md has no section $(VERSION)" >&2; exit 1; }

# Compiles the C code for arm64, runs it with qemu, and compares the results with those of this machine.
arm64-test: arm64-packages
	Tests/Packaging/arm64_test.sh .build/arm64

# Builds a Debian package in .build/deb, and checks it with lintian and systemd-analyze.
deb: $(if $(filter .build/release/cistern,$(BINARY)),build) deb-packages
	Configuration/debian/make-deb $(BINARY) $(VERSION) .build/deb

clean:
	rm -rf .build .build-thread .build-address .build-fuzz .build-profile

# Debian packages. Installs only missing packages; root is needed only then.
define install
	@missing=""; for package in $(1); do \
		dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	if [ -n "$$missing" ]; then \
		echo "installing:$$missing"; \
		sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		$$sudo apt-get update -qq && \
		$$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi
endef

packages:
	$(call install,$(BUILD_PACKAGES))

test-packages:
	$(call install,$(TEST_PACKAGES))

bench-packages:
	$(call install,$(BENCH_PACKAGES))

fault-packages:
	$(call install,$(FAULT_PACKAGES))

fleet-packages:
	$(call install,$(FLEET_PACKAGES))

browser-packages:
	$(call install,chromium)

alert-packages:
	$(call install,$(ALERT_PACKAGES))

client-packages:
	$(call install,$(CLIENT_PACKAGES))

conformance-packages:
	$(call install,$(CONFORMANCE_PACKAGES))

deb-packages:
	$(call install,$(DEB_PACKAGES))

dist-test-packages:
	$(call install,$(DIST_TEST_PACKAGES))

arm64-packages:
	$(call install,$(ARM64_PACKAGES))

image-packages:
	$(call install,$(IMAGE_PACKAGES))

help:
	@echo "make run UPSTREAM=URL   build a release and start it in front of URL (PORT=8080)"
	@echo "make run                start it with a sample API, without internet"
	@echo "make build              build a release: .build/release/cistern"
	@echo "make test               build and run all tests (FAST=1 omits the slow ones)"
	@echo "make lint               check formatting and the rules of .ci/check-sources"
	@echo "make soak               random schedules, many times (WALKS=, SEED=)"
	@echo "make sanitize           tests with ThreadSanitizer and AddressSanitizer"
	@echo "make fuzz               fuzz all parsers of untrusted bytes (TIME=, TARGET=)"
	@echo
	@echo "Tests of the release:"
	@echo "make faults             all known upstream failures, with and without a stored response"
	@echo "make kill               kill -9 while storing, purging and after writes, then check the responses"
	@echo "make stress             many users, a faulty upstream, purges and kills; checks each response (TIME=, SEED=, TLS=1)"
	@echo "make conformance        HTTP/2 compared with RFC 9113, section by section"
	@echo "make clients            common HTTP clients with each protocol, before and during an outage"
	@echo "make browser            a web app and the status page in Chromium, before and during an outage"
	@echo "make takeovers          take-overs between processes, and reloads, under load"
	@echo "make writers            reads after writes during take-overs"
	@echo "make alerts             all alerts, in a real Prometheus server"
	@echo "make bench              performance compared with nginx, HAProxy and minimal servers in C"
	@echo "make profile            renew the profile that the release is optimized with"
	@echo "make compare            results compared with other parsers and caches"
	@echo
	@echo "Tests of a fleet:"
	@echo "make fleet              four nodes that share through a Redis Cluster, whose primary is killed"
	@echo "make fleet-days         three nodes with network splits, a failing Redis server and wrong clocks"
	@echo "make scale              cost of the fleet log with up to 300 nodes"
	@echo
	@echo "Packages and images:"
	@echo "make dist               tarball, Debian package, checksums and bill of materials in .build/dist"
	@echo "make dist-test          test them in new Debian 12 and 13 systems (needs root)"
	@echo "make deb                only the Debian package, in .build/deb"
	@echo "make image              container image (buildah, root; PLATFORM=, FORMAT=oci, TAG=); make image-test tests it"
	@echo "make image-base         pin the newest base image"
	@echo "make manifests          validate the files for Kubernetes and Compose"
	@echo "make arm64-test         run the C code for arm64 with qemu"
	@echo "make release-notes      print the section of the changelog for TAG"
	@echo "make clean              remove all build results"

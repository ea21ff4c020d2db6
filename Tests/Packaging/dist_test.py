#!/usr/bin/env python3
"""Tests the files that make dist writes, in new roots made by debootstrap. From the tarball and from the package: install, start, rescue,
upgrade of a previous version with its store, removal. Checks the shared libraries, the checksums and the software bill of materials. Needs
root. Prints one line for each result, then the sizes, seconds and libraries. Fails at the first wrong result."""

import argparse
import hashlib
import http.server
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import deb_test
from deb_test import Chroot, get, wait_for
from trial import Upstream, holds

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MINUTE = 60
LARGEST_PROGRAM = 20_000_000
# Packages whose libraries the program may use, with their dependencies. Debian and Ubuntu always have libstdc++6, because apt needs it.
PERMITTED = ("libcurl4", "libcurl4t64", "libc6", "libstdc++6")


class API:
    """An upstream that can be shut down."""

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        self.server_port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def check_files(folder):
    """The checksums and the bill of materials. Returns the tarball, the package and the bill."""
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        holds(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, f"SHA256SUMS has the digest of {name}")
    tarball, package, bill = (next(folder.glob(pattern)) for pattern in ("*.tar.gz", "*.deb", "*.json"))
    text = bill.read_text()
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    holds(error is None, "the bill of materials is valid CycloneDX 1.5", str(error))
    names = {component["name"] for component in json.loads(text)["components"]}
    linked = subprocess.run([ROOT / "Configuration/dist/linked-packages"], check=True, capture_output=True, text=True).stdout
    missing = {line.split("\t")[1] for line in linked.splitlines()} - names
    holds(not missing and "libcurl.so.4" in names, "it names all linked and shared libraries", str(missing))
    return tarball, package, bill


def check_refusal():
    """make dist must fail if Debian has a newer version of a library that is linked in."""
    with tempfile.TemporaryDirectory() as folder:
        fakes = pathlib.Path(folder)
        (fakes / "apt-get").write_text("#!/bin/sh\n")
        for candidate, expected in (("99-newer", 1), ("0", 0)):
            (fakes / "apt-cache").write_text(f"#!/bin/sh\necho '  Candidate: {candidate}'\n")
            for fake in fakes.iterdir():
                fake.chmod(0o755)
            outcome = subprocess.run(
                [ROOT / "Configuration/dist/linked-packages", "--check"],
                capture_output=True,
                text=True,
                env={"PATH": f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"},
            )
            holds(
                outcome.returncode == expected and ("libyaml-dev" in outcome.stderr) == bool(expected),
                "the check of security updates " + ("reports a newer version" if expected else "accepts the installed versions"),
                outcome.stderr,
            )


def libraries(chroot, program):
    """Checks the libraries that the program loads, and returns those that it names itself."""
    curl = curl_package(chroot)
    needed = re.findall(
        r"\(NEEDED\).*\[(.+)\]", subprocess.run(["readelf", "-d", chroot.path(program)], check=True, capture_output=True, text=True).stdout
    )
    output = chroot.run(f"ldd {program}").stdout
    holds("not found" not in output, f"the program finds its libraries with {curl} only", output)
    paths = re.findall(r"=> (/\S+)", output)
    owners = {}
    for path in paths:
        # dpkg records the path of the package, which may lack the link of a merged /usr.
        found = chroot.run(f"dpkg -S {path} 2>/dev/null || dpkg -S /usr{path} 2>/dev/null || dpkg -S {path.removeprefix('/usr')}").stdout
        owners[path] = found.split(":")[0]
    permitted = [name for name in PERMITTED if name != curl and not name.startswith("libcurl4")] + [curl]
    closure = chroot.run(
        "apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "
        + " ".join(permitted)
    ).stdout
    closure = {line.split(":")[0] for line in closure.split() if not line.startswith("<")}
    foreign = {path: owner for path, owner in owners.items() if owner not in closure}
    holds(not foreign, "all of them belong to libcurl, the C library or libstdc++, or to what these need", str(foreign))
    return sorted(needed)


def curl_package(chroot):
    return "libcurl4t64" if "Package: libcurl4t64" in chroot.run("apt-cache show libcurl4t64 2>/dev/null").stdout else "libcurl4"


def serve(chroot, program, arguments):
    command = [shutil.which("chroot"), "--userspec=64321:64321", str(chroot.root), program, "serve", *arguments]
    return subprocess.Popen(
        command, env={"PATH": "/usr/bin:/bin", "HOME": "/tmp"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def is_ready(port):
    try:
        return get(port, "/readyz")[0] == 200
    except OSError:
        return False


def try_tarball(chroot, tarball, previous):
    """Returns the seconds from a new root to the rescue, those without Debian's packages, and the libraries."""
    begin = time.monotonic()
    outcome = chroot.run("apt-get update -qq")
    outcome = chroot.run(f"apt-get install -y -qq --no-install-recommends ca-certificates {curl_package(chroot)}")
    holds(outcome.returncode == 0, "libcurl's package can be installed", outcome.stdout)
    packages = time.monotonic()
    shutil.copy(tarball, chroot.path("/tmp"))
    share = "/usr/local/share"
    outcome = chroot.run(
        f"tar --strip-components=1 -C /usr/local -xf /tmp/{tarball.name} && /usr/local/bin/cistern --version "
        f"&& ls {share}/man/man1/cistern.1 {share}/zsh/site-functions/_cistern {share}/doc/cistern/linked/libyaml-dev.copyright "
        "/usr/local/lib/systemd/system/cistern.service"
    )
    holds(outcome.returncode == 0, "the tarball unpacks into /usr/local, and its program starts", outcome.stdout)
    if previous:
        shutil.copy(previous, chroot.path("/tmp/previous"))
        usable = chroot.run("/tmp/previous --version").returncode == 0
    program, port, api = "/usr/local/bin/cistern", free_port(), API()
    arguments = ["--upstream", f"http://127.0.0.1:{api.server_port}", "--listen", f"127.0.0.1:{port}", "--cache-dir", "/tmp/cache"]
    process = serve(chroot, "/tmp/previous" if previous and usable else program, arguments)
    try:
        holds(wait_for(lambda: is_ready(port)), "it starts as a user without rights", process.poll() is not None and process.stderr.read())
        holds("stored" in get(port, "/users")[1]["Cache-Status"], "it forwards a response and stores it")
        api.stop()
        status, fields, content = get(port, "/users")
        holds(
            status == 200 and content == b'{"users":[]}' and "detail=connection_refused" in fields["Cache-Status"],
            "with the upstream down, it rescues the request",
        )
        end = time.monotonic()
        process.send_signal(signal.SIGTERM)
        holds(process.wait(MINUTE) == 0, "SIGTERM ends it with 0")
        process = serve(chroot, program, arguments)
        holds(
            wait_for(lambda: is_ready(port)),
            "the new version starts with the same store",
            process.poll() is not None and process.stderr.read(),
        )
        holds(get(port, "/users")[2] == b'{"users":[]}', "it rescues with the response that the previous process stored")
    finally:
        process.terminate()
        process.wait(MINUTE)
    names = libraries(chroot, program)
    size = chroot.path(program).stat().st_size
    holds(size <= LARGEST_PROGRAM, f"the stripped program has {size / 1e6:.1f} MB")
    listing = subprocess.run(["tar", "-tf", tarball], check=True, capture_output=True, text=True).stdout.splitlines()
    files = [line.split("/", 1)[1] for line in listing if not line.endswith("/")]
    chroot.run("cd /usr/local && rm -f " + " ".join(files))
    left = chroot.run("find /usr/local -type f -iname '*cistern*'").stdout
    holds(not left, "no file is left after its removal", left)
    holds(
        end - begin < MINUTE,
        f"from a new root to the rescue: {end - begin:.1f} s, {end - packages:.1f} s of them without Debian's packages",
    )
    return end - begin, end - packages, names


def try_package(chroot, package):
    """Installs, uses, removes and purges the package. Returns the seconds from a new root to the rescue."""
    api, service = API(), None
    rescued = []
    # deb_test.used stops the upstream just before the rescue.
    api.shutdown, api.server_close = api.server.shutdown, lambda: (api.server.server_close(), rescued.append(time.monotonic()))
    begin = time.monotonic()
    try:
        deb_test.installed(chroot, package)
        service, port = deb_test.started(chroot, api)
        deb_test.used(chroot, service, port, api)
        deb_test.removed(chroot)
    finally:
        if service and service.process.poll() is None:
            service.process.kill()
            service.process.wait()
    seconds = rescued[0] - begin
    holds(seconds < MINUTE, f"from a new root to the rescue: {seconds:.1f} s, with all checks of the installation")
    return seconds


def try_upgrade(chroot, package, previous):
    """Installs the first of `previous` that this system can install, stores a response with it, and lets the new version take over."""
    chroot.run("apt-get update -qq")
    for candidate in previous:
        shutil.copy(candidate, chroot.path("/tmp/previous.deb"))
        outcome = chroot.run("apt-get install -y -qq --no-install-recommends /tmp/previous.deb")
        if outcome.returncode == 0:
            break
        print(f"      {candidate} cannot be installed here")
    holds(outcome.returncode == 0, "the previous version can be installed", outcome.stdout)
    api = API()
    service, port = deb_test.started(chroot, api)
    try:
        holds("stored" in get(port, "/users")[1]["Cache-Status"], "the previous version stores a response")
        shutil.copy(package, chroot.path("/tmp/cistern.deb"))
        outcome = chroot.run("apt-get install -y -qq --no-install-recommends /tmp/cistern.deb </dev/null")
        installed = chroot.run("dpkg-query -W -f '${Version}' cistern").stdout
        holds(
            outcome.returncode == 0 and f"_{installed}_" in package.name,
            "the package upgrades it, and keeps the changed configuration",
            outcome.stdout,
        )
        # systemd is not there: the test sends the signal that postinst sends.
        service.process.send_signal(signal.SIGUSR2)
        service.main = int(service.told("MAINPID=").split("\n")[0].removeprefix("MAINPID="))
        holds(service.told("READY=1").startswith("READY=1") and service.process.wait(MINUTE) == 0, "the new version takes over from it")
        api.stop()
        status, fields, content = get(port, "/users")
        holds(
            status == 200 and content == b'{"users":[]}' and "detail=" in fields["Cache-Status"],
            "it rescues with the response that the previous version stored",
        )
        holds(service.stop(), "SIGTERM ends it")
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait()


def lowered(package, folder):
    """The package with a lower version, as the previous version of itself."""
    tree, result = folder / "tree", folder / package.name
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 0.0.0~previous", control.read_text()))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, result], check=True, stdout=subprocess.DEVNULL)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--suites", nargs="+", default=["bookworm", "trixie"])
    parser.add_argument("--roots", type=pathlib.Path, default=pathlib.Path(".build/roots"))
    parser.add_argument("--old", type=pathlib.Path, help="package of the previous version")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    tarball, package, bill = check_files(options.folder)
    check_refusal()
    table = []
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="dist-test-") as folder:
        previous = [*([options.old] if options.old else []), lowered(package, pathlib.Path(folder))]
        program = None
        if options.old:
            subprocess.run(["dpkg-deb", "-x", options.old, f"{folder}/old"], check=True)
            program = pathlib.Path(folder) / "old/usr/bin/cistern"
        for suite in options.suites:
            for trial, arguments in ((try_tarball, (tarball, program)), (try_package, (package,)), (try_upgrade, (package, previous))):
                print(f"{suite}: {trial.__name__}")
                chroot = Chroot(options.roots / suite, suite)
                try:
                    result = trial(chroot, *arguments)
                finally:
                    chroot.remove()
                if trial is try_tarball:
                    seconds, without, names = result
                elif trial is try_package:
                    table.append(f"{suite:10} {seconds:6.1f} s {without:6.1f} s {result:6.1f} s")
    for file in (tarball, package, bill):
        print(f"{file.stat().st_size:10} {file.name}")
    print("libraries: " + " ".join(names))
    print("suite      tarball  without packages  package: from a new root to the rescue")
    print("\n".join(table))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Tests the container image: its description, size, ports, a rescue, the health check and the shutdown. Needs buildah and root, and pulls
nothing. With --binary, it builds the image from docker/Dockerfile without the first stage: the built program replaces the compiler, and
--base, the folder of a Debian made by debootstrap, replaces the base image. --format oci tests that format, which has no health check."""

import argparse
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from trial import Upstream, holds

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def buildah(*arguments, **options):
    return subprocess.run(["buildah", *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True, **options).stdout.strip()


def built(binary, base, form):
    """Builds the image's last stage from local files."""
    container = buildah("from", "scratch")
    buildah("add", "-q", container, base)
    buildah("commit", "-q", container, "localhost/cistern-test-base")
    buildah("rm", container)
    with tempfile.TemporaryDirectory() as folder:
        context = pathlib.Path(folder)
        shutil.copy(binary, context / "cistern")
        subprocess.run(["strip", context / "cistern"], check=True)
        shutil.copytree(ROOT / "Configuration", context / "Configuration")
        text = (ROOT / "docker/Dockerfile").read_text()
        stage = re.compile(r"^FROM \$\{SWIFT_IMAGE\} AS build$.*?(?=^FROM )", re.M | re.S)
        assert stage.search(text), "the Dockerfile has no first stage"
        (context / "Dockerfile").write_text(stage.sub("FROM scratch AS build\nCOPY cistern /cistern\n\n", text))
        subprocess.run(
            [
                "buildah",
                "bud",
                "-q",
                "--isolation",
                "chroot",
                "--format",
                form,
                "--build-arg",
                "BASE_IMAGE=localhost/cistern-test-base",
                "--build-arg",
                "VERSION=1.2.3",
                "--build-arg",
                "REVISION=abc",
                "--build-arg",
                "SOURCE=https://example.com/cistern",
                "-t",
                "localhost/cistern-test",
                str(context),
            ],
            check=True,
        )
    return "localhost/cistern-test"


def check_description(image, form):
    described = json.loads(buildah("inspect", "--type", "image", image))
    config = described["Docker"]["config"]
    health = config.get("Healthcheck", {}).get("Test")
    holds(
        health == (["CMD", "cistern", "status", "--check"] if form == "docker" else None),
        f"its health check is in the {form} format",
        str(health),
    )
    holds(config["User"] == "10001", "it runs as a user without rights")
    holds(config["Entrypoint"] == ["cistern"], "its entry point is the program")
    holds("/var/cache/cistern" in config["Volumes"] and config["StopSignal"] in ("SIGTERM", "15"), "it names its volume and its signal")
    holds(set(config["ExposedPorts"]) == {"8080/tcp", "9180/tcp"}, "it exposes the ports of clients and of administration")
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    missing = [
        name for name in ("title", "description", "version", "revision", "source", "documentation", "licenses") if not labels.get(name)
    ]
    holds(not missing, "it has the labels of the Open Container Initiative", str(missing))
    return dict(line.split("=", 1) for line in config["Env"])


def check_size(root, base):
    """The image may add 60 MB to its base. Package lists and logs do not count: base images have none, debootstrap's folders do."""

    def size(folder):
        command = ["du", "-sx", "--block-size=1", "--exclude=./var/lib/apt/lists", "--exclude=./var/cache/apt", "--exclude=./var/log", "."]
        return int(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split()[0])

    added = (size(root) - size(base)) / 1e6
    holds(added <= 60, f"it adds {added:.1f} MB to its base")


def get(port, target):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=30) as response:
        return response.status, dict(response.headers), response.read()


def run(root, environment, arguments):
    """Runs the program as the image describes: with its user, environment and files."""
    command = ["chroot", "--userspec=10001:10001", "--groups=", str(root), "cistern", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def try_out(root, environment):
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        admin = free.getsockname()[1]
    holds(
        environment["CISTERN_LISTEN"] == "0.0.0.0:8080" and environment["CISTERN_ADMIN_LISTEN"] == "0.0.0.0:9180",
        "it listens on both ports",
    )
    environment = {
        **environment,
        "CISTERN_LISTEN": f"127.0.0.1:{port}",
        "CISTERN_ADMIN_LISTEN": f"127.0.0.1:{admin}",
        "CISTERN_UPSTREAM_URL": f"http://127.0.0.1:{upstream.server_port}",
    }
    version = run(root, environment, ["--version"])
    holds(version.wait(60) == 0, "the program finds its libraries", version.stdout.read())
    process = run(root, environment, ["serve"])
    try:
        end = time.monotonic() + 60
        while True:
            try:
                if get(admin, "/readyz")[0] == 200:
                    break
            except OSError:
                pass
            if process.poll() is not None or time.monotonic() > end:
                holds(False, "it starts", process.poll() is not None and process.stdout.read())
            time.sleep(0.05)
        status, fields, content = get(port, "/users")
        holds(status == 200 and "stored" in fields["Cache-Status"], "it forwards a response and stores it")
        holds(
            get(admin, "/metrics")[2].startswith(b"#") and b"<html" in get(admin, "/-/status")[2],
            "metrics and the status page have their own port",
        )
        holds(get(port, "/metrics")[2] == b'{"users":[]}', "a client's request for /metrics goes to the upstream")
        holds(run(root, environment, ["status", "--check"]).wait(60) == 0, "the health check succeeds")
        upstream.shutdown()
        upstream.server_close()
        status, fields, content = get(port, "/users")
        holds(
            status == 200 and content == b'{"users":[]}' and "detail=" in fields["Cache-Status"],
            "with the upstream down, it rescues the request",
        )
        process.send_signal(signal.SIGTERM)
        holds(process.wait(60) == 0, "SIGTERM ends it with 0", process.stdout.read())
        holds(run(root, environment, ["status", "--check"]).wait(60) == 1, "the health check fails after that")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="localhost/cistern")
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--base", type=pathlib.Path)
    parser.add_argument("--format", choices=["docker", "oci"], default="docker")
    options = parser.parse_args()
    if options.binary and not options.base:
        parser.error("--binary needs --base")
    image = built(options.binary, options.base, options.format) if options.binary else options.image
    environment = check_description(image, options.format)
    container = buildah("from", "--pull-never", image)
    try:
        root = pathlib.Path(buildah("mount", container))
        owner = os.stat(root / "var/cache/cistern").st_uid
        holds(owner == 10001, "the volume belongs to its user")
        left = [path for path in ("var/lib/apt/lists", "var/cache/apt") if any((root / path).glob("*"))]
        holds(not left, "no files of the installation are left", str(left))
        if options.base:
            check_size(root, options.base)
        environment["PATH"] = environment.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        try:
            try_out(root, environment)
        finally:
            subprocess.run(["umount", root / "proc"], check=True)
    finally:
        buildah("rm", container)
        if options.binary:
            buildah("rmi", image, "localhost/cistern-test-base")


if __name__ == "__main__":
    main()

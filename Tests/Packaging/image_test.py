#!/usr/bin/env python3
"""Tries the container image as it is run: what it says of itself, a response passed on and kept, an outage, its health check, its end. Needs buildah
and root; nothing is pulled for it. With --binary the image is made anew of docker/Dockerfile, without its first stage: a program that is built
already comes in the place of the compiler, and --base is the folder of a Debian (as debootstrap makes it) in the place of the base image."""

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


def built(binary, base):
    """The image's last stage, with what is at hand in the place of what would be pulled."""
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
            ["buildah", "bud", "-q", "--isolation", "chroot", "--format", "docker", "--build-arg", "BASE_IMAGE=localhost/cistern-test-base",
             "-t", "localhost/cistern-test", str(context)], check=True)
    return "localhost/cistern-test"


def check_description(image):
    config = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
    holds(config.get("Healthcheck", {}).get("Test") == ["CMD", "cistern", "status", "--check"], "it has its health check", json.dumps(config, indent=1))
    holds(config["User"] == "10001", "it runs as nobody of importance")
    holds(config["Entrypoint"] == ["cistern"], "its entry point is the program")
    holds("/var/cache/cistern" in config["Volumes"] and config["StopSignal"] in ("SIGTERM", "15"), "it names its volume and its signal")
    return dict(line.split("=", 1) for line in config["Env"])


def get(port, target):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=30) as response:
        return response.status, dict(response.headers), response.read()


def run(root, environment, arguments):
    """As the image says: its user, its environment, in its files."""
    command = ["chroot", "--userspec=10001:10001", "--groups=", str(root), "cistern", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def try_out(root, environment):
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**environment, "CISTERN_LISTEN": f"127.0.0.1:{port}", "CISTERN_UPSTREAM_URL": f"http://127.0.0.1:{upstream.server_port}"}
    version = run(root, environment, ["--version"])
    holds(version.wait(60) == 0, "the program finds its libraries", version.stdout.read())
    process = run(root, environment, ["serve"])
    try:
        end = time.monotonic() + 60
        while True:
            try:
                if get(port, "/readyz")[0] == 200:
                    break
            except OSError:
                pass
            if process.poll() is not None or time.monotonic() > end:
                holds(False, "it starts", process.poll() is not None and process.stdout.read())
            time.sleep(0.05)
        status, fields, content = get(port, "/users")
        holds(status == 200 and "stored" in fields["Cache-Status"], "it passes a response on, and keeps it")
        holds(run(root, environment, ["status", "--check"]).wait(60) == 0, "its health check finds it well")
        upstream.shutdown()
        upstream.server_close()
        status, fields, content = get(port, "/users")
        holds(status == 200 and content == b'{"users":[]}' and "detail=" in fields["Cache-Status"], "with the upstream down it serves what it kept")
        process.send_signal(signal.SIGTERM)
        holds(process.wait(60) == 0, "SIGTERM ends it with 0", process.stdout.read())
        holds(run(root, environment, ["status", "--check"]).wait(60) == 1, "its health check finds it ended")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="localhost/cistern")
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--base", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary and not options.base:
        parser.error("--binary needs --base")
    image = built(options.binary, options.base) if options.binary else options.image
    environment = check_description(image)
    container = buildah("from", "--pull-never", image)
    try:
        root = pathlib.Path(buildah("mount", container))
        owner = os.stat(root / "var/cache/cistern").st_uid
        holds(owner == 10001, "the volume is its user's")
        left = [path for path in ("var/lib/apt/lists", "var/cache/apt") if any((root / path).glob("*"))]
        holds(not left, "nothing of the installation is left", str(left))
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

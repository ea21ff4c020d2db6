# Tests of the Debian package in a new root, as far as they go without systemd as the first process. dist_test.py runs them.

import io
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import tarfile
import time
import urllib.request

from trial import holds

USER = 64321


class Chroot:
    """A new system of a suite. FOLDER/base is made once by debootstrap, and FOLDER/work is a copy for one test."""

    def __init__(self, folder, suite):
        self.base = folder / "base"
        self.root = folder / "work"
        if not (self.base / "etc/debian_version").exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self.base, ignore_errors=True)
            subprocess.run(["debootstrap", "--variant=minbase", suite, self.base], check=True, stdout=subprocess.DEVNULL)
        self.remove()
        subprocess.run(["cp", "-a", "--reflink=auto", self.base, self.root], check=True)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        # Prevents packages from starting services.
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        subprocess.run(["mount", "-t", "proc", "proc", self.root / "proc"], check=True)

    def remove(self):
        if self.root.exists():
            if os.path.ismount(self.root / "proc"):
                subprocess.run(["umount", self.root / "proc"], check=True)
            subprocess.run(["rm", "-rf", "--one-file-system", self.root], check=True)

    def run(self, command):
        return subprocess.run(
            ["chroot", self.root, "sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
        )

    def path(self, name):
        return self.root / name.lstrip("/")

    def exists(self, name):
        return os.path.lexists(self.path(name))


class Service:
    """Does what systemd does for the unit: a user without rights, its directories, and the socket for notifications."""

    def __init__(self, chroot):
        self.chroot = chroot
        for kind in ("cache", "log"):
            directory = chroot.path(f"/var/{kind}/private/cistern")
            directory.mkdir(parents=True, exist_ok=True)
            # systemd's package creates the parent with mode 0700, and gives the service a mount namespace in which it is accessible.
            directory.parent.chmod(0o755)
            os.chown(directory, USER, USER)
            link = chroot.path(f"/var/{kind}/cistern")
            if not link.is_symlink():
                link.symlink_to("private/cistern")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.settimeout(60)
        name = f"@cistern.deb-test.{os.getpid()}"
        self.notify.bind("\0" + name[1:])
        unit = chroot.path("/usr/lib/systemd/system/cistern.service")
        if not unit.exists():
            unit = chroot.path("/lib/systemd/system/cistern.service")
        self.lines = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#"))
        command = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--bounding-set=-all", "--no-new-privs", "env", "-i"]
        command += ["PATH=/usr/bin:/bin", f"NOTIFY_SOCKET={name}", "WATCHDOG_USEC=1000000"] + shlex.split(self.lines["ExecStart"])
        self.process = subprocess.Popen(["chroot", chroot.root] + command, stderr=subprocess.PIPE, text=True)
        self.main = self.process.pid

    def told(self, beginning):
        """Waits for a notification that begins with this text."""
        while True:
            text = self.notify.recv(4096).decode()
            if text.startswith(beginning):
                return text

    def stop(self):
        os.kill(self.main, signal.SIGTERM)
        return wait_for(
            lambda: not os.path.exists(f"/proc/{self.main}") or "State:\tZ" in pathlib.Path(f"/proc/{self.main}/status").read_text()
        )


def get(port, target):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{target}", timeout=30) as response:
        return response.status, dict(response.headers), response.read()


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def installed(chroot, package):
    shutil.copy(package, chroot.path("/tmp/cistern.deb"))
    outcome = chroot.run("apt-get update -qq && apt-get install -y -qq --no-install-recommends /tmp/cistern.deb logrotate man-db")
    holds(outcome.returncode == 0, "it can be installed, with what it depends on", outcome.stdout)
    outcome = chroot.run("cistern --version && ldd /usr/bin/cistern | grep 'not found'")
    holds("not found" not in outcome.stdout and outcome.stdout.strip(), "the program runs, and finds its libraries", outcome.stdout)
    for name in (
        "bash-completion/completions/cistern",
        "zsh/vendor-completions/_cistern",
        "fish/vendor_completions.d/cistern.fish",
        "man/man1/cistern.1.gz",
        "man/man5/cistern.yaml.5.gz",
    ):
        holds(chroot.path("/usr/share/" + name).stat().st_size > 1000, f"/usr/share/{name} is there")
    outcome = chroot.run("bash -n /usr/share/bash-completion/completions/cistern")
    holds(outcome.returncode == 0, "bash takes its completions", outcome.stdout)
    outcome = chroot.run("logrotate -d /etc/logrotate.d/cistern")
    holds(outcome.returncode == 0 and "error" not in outcome.stdout, "logrotate takes its file", outcome.stdout)
    outcome = chroot.run("dpkg-query -W -f '${Conffiles}' cistern")
    holds("/etc/cistern/cistern.yaml" in outcome.stdout, "the configuration is a conffile", outcome.stdout)
    scripts = subprocess.run(["dpkg-deb", "--ctrl-tarfile", package], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(scripts)) as control:
        texts = {
            name: control.extractfile("./" + name).read().decode() if "./" + name in control.getnames() else ""
            for name in ("preinst", "prerm", "postinst")
        }
    holds(" stop " not in texts["preinst"], "an upgrade does not stop the service", texts["preinst"])
    stops = [line for line in texts["prerm"].splitlines() if " stop " in line]
    holds(len(stops) == 1 and '"$1" = remove' in texts["prerm"], "it is stopped when it is removed", texts["prerm"])
    holds("SIGUSR2" in texts["postinst"], "after an upgrade the new program takes over", texts["postinst"])
    outcome = chroot.run("cistern check --config /etc/cistern/cistern.yaml")
    holds(
        outcome.returncode == 78 and "upstream.url is missing" in outcome.stdout, "without an upstream it says so, with 78", outcome.stdout
    )


def started(chroot, upstream):
    file = chroot.path("/etc/cistern/cistern.yaml")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = file.read_text().replace(
        "# upstream:\n#   url: https://api.example.com", f"upstream:\n  url: http://127.0.0.1:{upstream.server_port}"
    )
    text = text.replace("# log:\n#   access", "log:\n  access").replace(":8080", f":{port}")
    file.write_text(text)
    outcome = chroot.run("cistern check --config /etc/cistern/cistern.yaml")
    holds(outcome.returncode == 0, "with the two lines uncommented the settings are good", outcome.stdout)
    service = Service(chroot)
    ready = service.told("READY=1")
    holds(f"listening on 127.0.0.1:{port}" in ready, "started as its unit says, it tells systemd that it is ready")
    holds(service.told("WATCHDOG=1") == "WATCHDOG=1", "it feeds the watchdog")
    return service, port


def used(chroot, service, port, upstream):
    holds(get(port, "/users")[0] == 200, "it passes a response on")
    outcome = chroot.run("cistern ls")
    holds(outcome.returncode == 0 and "/users" in outcome.stdout, "root's commands find it by /etc/cistern/cistern.yaml", outcome.stdout)
    holds(chroot.run("cistern status --check").returncode == 0, "it is healthy")
    upstream.shutdown()
    upstream.server_close()
    status, fields, content = get(port, "/users")
    holds(
        status == 200 and content == b'{"users":[]}' and "detail=" in fields["Cache-Status"],
        "with the upstream down it serves what it kept",
    )
    log = chroot.path("/var/log/private/cistern/access.log")
    holds(wait_for(lambda: log.stat().st_size > 0), "the access log is written")
    log.rename(str(log) + ".1")
    service.process.send_signal(signal.SIGUSR1)
    holds(wait_for(lambda: log.exists()), "after SIGUSR1 it writes a new one")
    service.process.send_signal(signal.SIGUSR2)
    main = int(service.told("MAINPID=").split("\n")[0].removeprefix("MAINPID="))
    holds(service.told("READY=1").startswith("READY=1"), "after SIGUSR2 another process is the main one")
    holds(service.process.wait(timeout=60) == 0, "the one before it ends with 0")
    holds(get(port, "/users")[2] == b'{"users":[]}', "and the other serves what that one kept")
    service.main = main
    holds(service.stop(), "SIGTERM ends it")
    holds(service.told("STOPPING=1").startswith("STOPPING=1"), "it told systemd that it stops")


def removed(chroot):
    outcome = chroot.run("dpkg -i /tmp/cistern.deb </dev/null")
    kept = chroot.path("/etc/cistern/cistern.yaml").read_text()
    holds(outcome.returncode == 0 and "\nupstream:" in kept, "installed again, it keeps the configuration that was changed", outcome.stdout)
    outcome = chroot.run("apt-get remove -y -qq cistern")
    holds(outcome.returncode == 0 and not chroot.exists("/usr/bin/cistern"), "it can be removed", outcome.stdout)
    holds(
        chroot.exists("/etc/cistern/cistern.yaml") and chroot.exists("/var/cache/cistern"), "configuration and what it kept are still there"
    )
    outcome = chroot.run("apt-get purge -y -qq cistern")
    holds(outcome.returncode == 0, "it can be purged", outcome.stdout)
    left = subprocess.run(
        ["find", *(chroot.path(p) for p in ("/etc", "/usr", "/var", "/lib/systemd")), "-iname", "*cistern*"], capture_output=True, text=True
    )
    left = [line for line in left.stdout.splitlines() if "/var/log/apt" not in line]
    holds(not left, "nothing of it is left", "\n".join(left))

"""How names resolve for one process: `/etc/hosts` and `/etc/resolv.conf` of its own, by a mount namespace (`unshare`, without root)."""
import os
import shutil
import socket
import subprocess
import threading
import time

HOST = "api.test"
# Name servers: one never answers, one takes its time. Both need leave to use port 53.
SILENT, SLOW = "127.0.0.77", "127.0.0.78"
SLOWNESS = 0.05
WRAP = 'mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf && shift 2 && exec "$@"'


class Names:
    """Whether this machine lets us, and the name servers."""

    def __init__(self):
        self.hasNamespaces = shutil.which("unshare") is not None and subprocess.run(
            ["unshare", "--map-root-user", "--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"], capture_output=True).returncode == 0
        self.silent, self.slow = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        try:
            self.silent.bind((SILENT, 53))
            self.slow.bind((SLOW, 53))
            self.hasServers = True
            threading.Thread(target=self.answer, daemon=True).start()
        except OSError:
            self.hasServers = False

    def answer(self):
        """Every name is 127.0.0.1 (RFC 1035 §4); there are no other records."""
        while True:
            query, client = self.slow.recvfrom(512)
            end = query.index(b"\0", 12) + 5
            isAddress = query[end - 4:end - 2] == b"\0\1"
            head = query[:2] + b"\x81\x80\0\1\0" + (b"\1" if isAddress else b"\0") + b"\0\0\0\0" + query[12:end]
            time.sleep(SLOWNESS)
            self.slow.sendto(head + (b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1" if isAddress else b""), client)

    def works(self, resolving):
        return self.hasNamespaces and (resolving == "unknown" or self.hasServers)

    def make(self, directory):
        return ProcessNames(directory)


class ProcessNames:
    host = HOST

    def __init__(self, directory):
        self.hosts, self.resolver = os.path.join(directory, "hosts"), os.path.join(directory, "resolv.conf")
        self.set("known")

    def wrap(self, command):
        return ["unshare", "--map-root-user", "--mount", "sh", "-c", WRAP, "sh", self.hosts, self.resolver, *command]

    def set(self, resolving):
        """"known": to loopback. "unknown": there is no name server. "silent": it never answers. "slow": it does, but not at once."""
        self.write(self.hosts, "127.0.0.1 localhost\n" + (f"127.0.0.1 {HOST}\n" if resolving == "known" else ""))
        servers = {"silent": SILENT, "slow": SLOW}
        self.write(self.resolver, f"nameserver {servers.get(resolving, '127.0.0.1')}\n")

    def write(self, file, text):
        """In place: the mount shows this very file."""
        with open(file, "w", encoding="ascii") as out:
            out.write(text)

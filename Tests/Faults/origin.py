"""An origin that does what it is told, byte by byte: answers well, fails in a scripted way, or is down.

A script is a tuple of steps: bytes are sent, a number is a pause in seconds, the names below do what they say. After the last step the
connection is kept for the next request.
"""
import os
import socket
import ssl
import struct
import subprocess
import threading
from dataclasses import dataclass

RESET = "reset"
CLOSE = "close"
# Says nothing more until the origin changes.
HANG = "hang"


@dataclass(frozen=True)
class Drip:
    """One byte after another."""
    content: bytes
    seconds_between: float = 0.1


@dataclass(frozen=True)
class Flood:
    """The same again and again, until the other side has had enough."""
    content: bytes
    times: int = 10_000


class Origin:
    """Keeps its port while it is down: a second socket is bound to it and does not listen, so connections are refused."""

    def __init__(self, certificates=None):
        self.certificates = certificates
        self.connections = set()
        self.lock = threading.Lock()
        self.changed = threading.Event()
        self.requests = 0
        self.listener = None
        self.fillers = []
        self.placeholder = self.bind(0)
        self.port = self.placeholder.getsockname()[1]

    # What it is told

    def good(self, answer):
        """- Parameter answer: from a target to the whole answer as bytes."""
        self.change()
        self.certificate = "good"
        self.at, self.answer, self.fault, self.times = "answer", answer, None, 0
        self.listen()

    def fail(self, fault, answer):
        """Fails from now on as `fault` (see `Fault`) says; connections that wait for requests stay, where the fault is in the answer.
        - Parameter answer: as for `good`, where the fault lets one through.
        """
        self.change(keeps=fault.at in ("answer", "kept"))
        self.answer = answer
        self.certificate = fault.certificate
        self.at, self.fault, self.times = fault.at, fault, fault.times
        if fault.at == "refused":
            return
        if fault.at == "black hole":
            return self.fill_backlog()
        self.listen()

    def down(self):
        self.change()

    def close(self):
        self.change()
        self.placeholder.close()

    # How it does it

    def bind(self, port):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", port))
        return sock

    def change(self, keeps=False):
        with self.lock:
            self.changed.set()
            self.changed = threading.Event()
            if keeps:
                return
            if self.listener:
                # Wakes the thread that accepts.
                try:
                    self.listener.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                self.listener.close()
                self.listener = None
            for sock in self.fillers + list(self.connections):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            for sock in self.fillers:
                sock.close()
            self.fillers = []

    def listen(self):
        with self.lock:
            if self.listener:
                return
            self.listener = self.bind(self.port)
            self.listener.listen(64)
            threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def fill_backlog(self):
        """Nobody accepts and the queue is full: the kernel drops every further attempt, as a black hole would."""
        self.listener = self.bind(self.port)
        self.listener.listen(0)
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", self.port))
            self.fillers.append(sock)

    def accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.connections.add(sock)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        own = sock
        try:
            if self.at in ("accept", "handshake"):
                if self.at == "handshake":
                    sock.recv(4096)
                self.perform(sock, self.fault.steps)
                return
            if self.certificates:
                sock.settimeout(20)
                sock = own = self.certificates.context(self.certificate).wrap_socket(sock, server_side=True, suppress_ragged_eofs=True)
                with self.lock:
                    self.connections.add(own)
            count = 0
            while True:
                head = self.read_head(own)
                if head is None:
                    return
                self.requests += 1
                count += 1
                if not self.perform(own, self.steps_for(head, isKept=count > 1)):
                    return
        except OSError:
            pass
        finally:
            with self.lock:
                self.connections.discard(sock)
                self.connections.discard(own)
            own.close()
            sock.close()

    def steps_for(self, head, isKept):
        target = head.split(b" ")[1]
        fault = self.fault
        if fault is None or (fault.at == "kept" and not isKept):
            return (self.answer(target),)
        if fault.times:
            self.times -= 1
            if self.times < 0:
                return (self.answer(target),)
        return fault.steps

    def read_head(self, sock):
        head = b""
        while b"\r\n\r\n" not in head:
            got = sock.recv(65_536)
            if not got:
                return None
            head += got
        return head

    def perform(self, sock, steps):
        """Returns whether the connection goes on."""
        changed = self.changed
        for step in steps:
            if isinstance(step, bytes):
                sock.sendall(step)
            elif isinstance(step, (int, float)):
                if changed.wait(step):
                    return False
            elif isinstance(step, Drip):
                for place in range(len(step.content)):
                    sock.sendall(step.content[place:place + 1])
                    if changed.wait(step.seconds_between):
                        return False
            elif isinstance(step, Flood):
                for _ in range(0, step.times, 50):
                    sock.sendall(step.content * min(50, step.times))
            elif step == HANG:
                changed.wait(60)
                return False
            elif step == RESET:
                # What was sent is read before the reset arrives.
                if len(steps) > 1:
                    changed.wait(0.05)
                raw = sock
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            elif step == CLOSE:
                return False
        return True


class Certificates:
    """An authority of the run's own, and certificates for 127.0.0.1: one good, and some that are not."""

    def __init__(self, directory):
        self.directory = directory
        self.authority = self.file("authority.pem")
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=authority",
                 "-keyout", self.file("authority.key"), "-out", self.authority)
        self.make("good", "IP:127.0.0.1", "2")
        self.make("another host", "DNS:elsewhere.invalid", "2")
        self.make("expired", "IP:127.0.0.1", "-1")
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.file("self-signed.key"), "-out", self.file("self-signed.pem"))

    def file(self, name):
        return os.path.join(self.directory, name)

    def run(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def make(self, name, alternative, days):
        request, extensions = self.file("request.pem"), self.file("extensions")
        with open(extensions, "w", encoding="ascii") as out:
            out.write(f"subjectAltName={alternative}\n")
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=upstream",
                 "-keyout", self.file(f"{name}.key"), "-out", request)
        self.run("x509", "-req", "-in", request, "-CA", self.authority, "-CAkey", self.file("authority.key"), "-CAcreateserial",
                 "-days", days, "-extfile", extensions, "-out", self.file(f"{name}.pem"))

    def context(self, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file(f"{name}.pem"), self.file(f"{name}.key"))
        return context

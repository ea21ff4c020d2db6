"""The clients that people use: each makes requests, one after the other, and says what it got."""

import importlib.util
import shutil
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent


class Response:
    def __init__(self, status, version, fields, content):
        self.status, self.version, self.content = int(status), version, content
        self.fields = {name.lower(): value for name, value in fields}


class Request:
    def __init__(self, path, method="GET", content=None, **fields):
        self.path, self.method, self.content = path, method, content
        self.fields = {name.replace("_", "-"): value for name, value in fields.items()}
        if content:
            self.fields["Content-Type"] = "application/json"
        if "Range" in self.fields:
            # A part of what is coded can be decoded by nobody.
            self.fields["Accept-Encoding"] = "identity"


def has_library(name):
    return importlib.util.find_spec(name) is not None


class Curl:
    """Each request on a connection of its own."""

    def __init__(self, *arguments):
        self.arguments = arguments

    @staticmethod
    def is_there():
        return shutil.which("curl")

    def run(self, base, requests, door):
        return [self.ask(base + request.path, request, door) for request in requests]

    def ask(self, url, request, door):
        with tempfile.TemporaryDirectory() as directory:
            head, body = Path(directory) / "head", Path(directory) / "body"
            command = ["curl", "-sS", "-D", head, "-o", body, "-w", "%{http_code} %{http_version}", "--cacert", door.authority, url, *self.arguments]
            command += ["--head"] if request.method == "HEAD" else ["-X", request.method]
            command += [] if "Accept-Encoding" in request.fields else ["--compressed"]
            for name, value in request.fields.items():
                command += ["-H", f"{name}: {value}"]
            if request.content:
                command += ["--data-binary", "@-"]
            done = subprocess.run(command, input=request.content or b"", capture_output=True)
            if done.returncode:
                return Response(0, "", [], done.stderr)
            status, version = done.stdout.decode().split()
            fields = [line.split(": ", 1) for line in head.read_text().splitlines() if ": " in line]
            return Response(status, version, fields, body.read_bytes() if body.exists() and request.method != "HEAD" else b"")


class Requests:
    @staticmethod
    def is_there():
        return has_library("requests")

    def run(self, base, requests, door):
        import requests as library
        with library.Session() as session:
            # Else the environment would come first.
            session.trust_env, session.verify = False, door.authority
            return [self.ask(session, base, request) for request in requests]

    def ask(self, session, base, request):
        came = session.request(request.method, base + request.path, data=request.content, headers=request.fields, timeout=20)
        return Response(came.status_code, "1.1" if came.raw.version == 11 else "2", came.headers.items(), came.content)


class HTTPX:
    def __init__(self, **options):
        self.options = options

    @staticmethod
    def is_there():
        return has_library("httpx") and has_library("h2")

    def run(self, base, requests, door):
        import httpx
        context = ssl.create_default_context(cafile=door.authority)
        if door.asks_for_certificate:
            context.load_cert_chain(door.client_certificate)
        with httpx.Client(verify=context, timeout=20, **self.options) as client:
            responses = [client.request(one.method, base + one.path, content=one.content, headers=one.fields) for one in requests]
        return [Response(came.status_code, came.http_version.removeprefix("HTTP/"), came.headers.items(), came.content) for came in responses]


class H2:
    """Python's h2, one request after the other on one connection."""

    @staticmethod
    def is_there():
        return has_library("h2")

    def run(self, base, requests, door):
        import h2.config
        import h2.connection
        place = urlsplit(base)
        self.socket = socket.create_connection((place.hostname, place.port), timeout=20)
        if place.scheme == "https":
            context = ssl.create_default_context(cafile=door.authority)
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname=place.hostname)
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.connection.initiate_connection()
        try:
            return [self.ask(place, request) for request in requests]
        finally:
            self.socket.close()

    def ask(self, place, request):
        from h2 import events
        stream = self.connection.get_next_available_stream_id()
        fields = [(":method", request.method), (":scheme", place.scheme), (":authority", place.netloc), (":path", request.path)]
        fields += [(name.lower(), value) for name, value in request.fields.items()]
        self.connection.send_headers(stream, fields, end_stream=request.content is None)
        if request.content is not None:
            self.connection.send_data(stream, request.content, end_stream=True)
        head, content = [], b""
        while True:
            self.socket.sendall(self.connection.data_to_send())
            data = self.socket.recv(65536)
            if not data:
                return Response(0, "", [], b"the connection ended")
            for event in self.connection.receive_data(data):
                match event:
                    case events.ResponseReceived():
                        head = event.headers
                    case events.DataReceived():
                        content += event.data
                        self.connection.acknowledge_received_data(event.flow_controlled_length, stream)
                    case events.StreamEnded():
                        return Response(dict(head)[":status"], "2", head, content)
                    case events.StreamReset() | events.ConnectionTerminated():
                        return Response(0, "", [], str(event).encode())


class URLSession:
    """Swift's, which speaks by libcurl where this is not an Apple's machine. It says nothing of the version; the origin does."""

    program = None

    @staticmethod
    def is_there():
        return shutil.which("swiftc")

    def run(self, base, requests, door):
        if not URLSession.program:
            URLSession.directory = tempfile.TemporaryDirectory()
            URLSession.program = f"{URLSession.directory.name}/session"
            subprocess.run(["swiftc", str(HERE / "session.swift"), "-o", URLSession.program], check=True)
        texts = []
        for request in requests:
            fields = [f"{name}: {value}" for name, value in request.fields.items()]
            texts.append("|".join([f"{request.method} {request.path}", *fields, *([request.content.decode()] if request.content else [])]))
        # It trusts the machine's authorities and can be told no others: what it sees of them is ours.
        trust = f"mount --bind {door.authority} /etc/ssl/certs/ca-certificates.crt && exec \"$@\""
        alone = ["unshare", "--map-root-user", "--mount", "sh", "-c", trust, "sh"] if base.startswith("https") else []
        done = subprocess.run([*alone, URLSession.program, base, *texts], capture_output=True)
        if done.returncode:
            return [Response(0, None, [], done.stderr) for _ in requests]
        out = []
        for line in done.stdout.decode().rstrip("\n").split("\n"):
            status, said, content = line.split("\t", 2)
            out.append(Response(0 if status == "error" else status, None, [("cache-status", said)], content.encode()))
        return out

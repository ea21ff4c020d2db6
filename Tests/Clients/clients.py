#!/usr/bin/env python3
"""Asks Cistern with clients that people use - curl, Python's requests, httpx and h2, Swift's URLSession, a WebSocket - and checks what each gets.

    clients.py [--cistern PATH]

Each goes through the doors that it knows: in clear or over TLS, HTTP/1.1 or HTTP/2, with a certificate of its own, behind a balancer's PROXY line. Each asks for
the same targets of an origin that comes and goes. Ends with 1 where one of them gets something else than it should; those that are not
installed are named and left out.
"""

import argparse
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import tls
from doors import HOST, Cistern
from libraries import H2, HTTPX, Curl, Request, Requests, URLSession
from origin import LONG, TAG, USERS, Origin, pack_message, read_message


class Results:
    def __init__(self):
        self.held = self.failed = 0

    def check(self, who, sentence, holds, seen):
        self.held, self.failed = self.held + bool(holds), self.failed + (not holds)
        if not holds:
            print(f"WRONG {who}: {sentence}: {seen}")


def clients(cistern):
    """A name, a client, its door, and the version of HTTP that is to be spoken."""
    clear, secured, mutual, balanced = cistern.clear, cistern.tls, cistern.mutual, cistern.balanced
    with_certificate = ("--cert", mutual.client_certificate)
    yield from [
        ("curl --http1.1, clear", Curl("--http1.1"), clear, "1.1"),
        # It offers to upgrade, which RFC 9113 does not know any more.
        ("curl --http2, clear", Curl("--http2"), clear, "1.1"),
        ("curl --http2-prior-knowledge", Curl("--http2-prior-knowledge"), clear, "2"),
        ("curl --http1.1, TLS", Curl("--http1.1"), secured, "1.1"),
        ("curl --http2, TLS", Curl("--http2"), secured, "2"),
        ("curl --tls-max 1.2, TLS", Curl("--http2", "--tls-max", "1.2"), secured, "2"),
        ("curl --cert, HTTP/2", Curl("--http2", *with_certificate), mutual, "2"),
        ("curl --cert, HTTP/1.1", Curl("--http1.1", *with_certificate), mutual, "1.1"),
        ("curl --haproxy-protocol", Curl("--haproxy-protocol", "-4"), balanced, "1.1"),
        ("requests, clear", Requests(), clear, "1.1"),
        ("requests, TLS", Requests(), secured, "1.1"),
        ("httpx, HTTP/1.1", HTTPX(http2=False), secured, "1.1"),
        ("httpx, HTTP/2", HTTPX(http2=True), secured, "2"),
        ("httpx, HTTP/2 in clear", HTTPX(http1=False, http2=True), clear, "2"),
        ("httpx, certificate", HTTPX(http2=True), mutual, "2"),
        ("h2, clear", H2(), clear, "2"),
        ("h2, TLS", H2(), secured, "2"),
        ("URLSession, clear", URLSession(), clear, "1.1"),
        ("URLSession, TLS", URLSession(), secured, None),
    ]


def rows(name):
    """What is asked before and during the outage: status, a word of Cache-Status, content."""
    mark = "".join(letter if letter.isalnum() else "-" for letter in name)
    users, fresh = f"/users?by={mark}&a=%20", f"/fresh/{mark}"
    before = [
        (Request(users), 200, "uri-miss; stored", USERS),
        (Request(f"/users?a=+&by={mark}"), 200, "fwd=stale", USERS),
        (Request(fresh), 200, "stored", USERS),
        (Request(fresh), 200, "hit; ttl=", USERS),
        (Request(fresh, If_None_Match=TAG), 304, "", b""),
        (Request(fresh, Range="bytes=1-8"), 206, "", USERS[1:9]),
        (Request(fresh, "HEAD"), 200, "", b""),
        (Request(f"/long/{mark}"), 200, "fwd=uri-miss", LONG),
        (Request(f"/long/{mark}"), 200, "hit", LONG),
        (Request("/users", "POST", b'{"a":1}'), 201, "fwd=method", None),
        (Request(f"/session/{mark}"), 200, "", None),
    ]
    during = [
        (Request(users), 200, "hit; ttl=", USERS),
        (Request(users, If_None_Match=TAG), 304, "hit", b""),
        (Request(users, Range="bytes=1-8"), 206, "hit", USERS[1:9]),
        (Request(fresh, "HEAD"), 200, "hit", b""),
        (Request(f"/never/{mark}"), 502, "", None),
        (Request("/users", "POST", b'{"a":1}'), 502, "", None),
    ]
    return [(False, before), (True, during)]


def check_client(results, origin, name, client, door, version):
    for is_down, wanted in rows(name):
        origin.go(is_down)
        responses = client.run(door.base, [row[0] for row in wanted], door)
        for (request, status, word, content), got in zip(wanted, responses, strict=True):
            said = got.fields.get("cache-status", "")
            holds = got.status == status and word in said and (content is None or got.content == content)
            holds = holds and (version is None or got.version in (None, version))
            if request.method == "POST" and got.status == 201:
                # The origin knows what the client spoke with us.
                via = json.loads(got.content)["via"].split()[0]
                holds = holds and (version is None or via == version)
                if version is None:
                    name = f"{name}, which is HTTP/{via}"
            sentence = f"{request.method} {request.path} {request.fields} {'in the outage' if is_down else ''}"
            results.check(name, sentence, holds, f"{got.status} HTTP/{got.version} {said} {got.content[:60]!r}")
    origin.go(False)
    return name


def upgraded(door):
    """A WebSocket's connection, and the status that it got; by hand, since not many libraries are everywhere."""
    plain = socket.create_connection((HOST, door.port), timeout=20)
    if door.base.startswith("https"):
        context = ssl.create_default_context(cafile=door.authority)
        context.set_alpn_protocols(["http/1.1"])
        plain = context.wrap_socket(plain, server_hostname="localhost")
    plain.sendall(b"GET /live/talk HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                  b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    file = plain.makefile("rb")
    status = int(file.readline().split()[1])
    fields = {}
    while line := file.readline().strip():
        name, value = line.decode().split(": ", 1)
        fields[name.lower()] = value
    return plain, file, status, fields


def check_websocket(results, origin, door):
    name = f"WebSocket, {door.name}"
    plain, file, status, fields = upgraded(door)
    accept = fields.get("sec-websocket-accept")
    results.check(name, "is accepted", (status, accept) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), (status, fields))
    for text in (b"hello", b"x" * 1000, os.urandom(300_000)):
        plain.sendall(pack_message(2, text, mask=b"\x01\x02\x03\x04"))
        results.check(name, f"{len(text)} bytes come back", read_message(file) == (2, text), "something else")
    plain.sendall(pack_message(8, b"\x03\xe8", mask=b"\x01\x02\x03\x04"))
    results.check(name, "ends with a word", read_message(file) == (8, b"\x03\xe8") and file.read() == b"", "something else")
    plain.close()
    origin.go(True)
    plain, _, status, _ = upgraded(door)
    results.check(name, "is refused in the outage", status == 502, status)
    plain.close()
    origin.go(False)


def check_refused(results, cistern):
    """What must not get in."""
    for name, door, arguments in [("curl without a certificate", cistern.mutual, ()), ("curl without a PROXY line", cistern.balanced, ()),
                                  ("curl with a PROXY line for TLS", cistern.tls, ("--haproxy-protocol",)),
                                  ("curl that trusts nobody", cistern.tls, ("--capath", "/dev/null", "--cacert", "/dev/null"))]:
        got = Curl(*arguments).ask(door.base + "/users", Request("/users"), door)
        results.check(name, "gets no response", got.status == 0, got.status)
    got = Curl().ask(cistern.tls.base.replace("https", "http") + "/users", Request("/users"), cistern.tls)
    results.check("curl in clear on the TLS port", "is told so", got.status == 400 and b"https" in got.content, (got.status, got.content))


def check_load(results, cistern):
    for door in (cistern.clear, cistern.tls):
        command = ["h2load", "-n", "5000", "-c", "10", "-m", "50", f"{door.base}/fresh/load"]
        said = subprocess.run(command, capture_output=True, timeout=60).stdout.decode()
        results.check(f"h2load, {door.name}", "every request has its response", "5000 succeeded, 0 failed" in said and "5000 2xx" in said, said[-600:])


def check_memory(results, cistern):
    """A crowd that begins handshakes and says no more goes, and what it took goes with it."""
    hello, nothing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        ssl.create_default_context().wrap_bio(nothing, hello, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    begun = hello.read()
    before = cistern.resident_bytes()
    crowd = []
    for _ in range(900):
        crowd.append(socket.create_connection((HOST, cistern.tls.port), timeout=20))
        crowd[-1].sendall(begun)
    for connection in crowd:
        connection.recv(1)
    most = cistern.resident_bytes() - before
    for connection in crowd:
        connection.close()
    # It is returned once a minute at most.
    until = time.monotonic() + 75
    while time.monotonic() < until and cistern.resident_bytes() - before > most / 3:
        time.sleep(0.2)
    left = cistern.resident_bytes() - before
    results.check("900 handshakes that do not end", "memory returns", left <= most / 3, f"{left >> 20} of {most >> 20} MiB are left")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cistern", default=".build/release/cistern")
    options = parser.parse_args()
    origin, results = Origin(), Results()
    cistern = Cistern(Path(options.cistern).resolve(), origin)
    try:
        for name, client, door, version in clients(cistern):
            if not client.is_there():
                print(f"left out, since it is not installed: {name}")
                continue
            before = results.failed
            name = check_client(results, origin, name, client, door, version)
            print(f"{'ok   ' if results.failed == before else 'WRONG'} {name}")
        for door in (cistern.clear, cistern.tls):
            check_websocket(results, origin, door)
        check_refused(results, cistern)
        if shutil.which("h2load"):
            check_load(results, cistern)
        tls.check(results, cistern)
        check_memory(results, cistern)
    finally:
        cistern.stop()
    print(f"{results.held} of {results.held + results.failed} hold")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())

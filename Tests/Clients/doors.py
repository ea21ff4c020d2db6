"""Cistern with every door that it has, in front of an origin, and the certificates for it."""

import socket
import subprocess
import tempfile
import time
from pathlib import Path

HOST = "127.0.0.1"


class Door:
    """Where to ask, and what a client needs to know for it."""

    def __init__(self, name, scheme, port, directory, asks_for_certificate=False):
        self.name, self.base, self.port = name, f"{scheme}://localhost:{port}", port
        self.authority, self.client_certificate = f"{directory}/ca.pem", f"{directory}/client.pem"
        self.asks_for_certificate = asks_for_certificate


def make_certificates(directory):
    """An authority's, the server's, and a client's."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority", "-days", "30", "-addext",
            "keyUsage=critical,keyCertSign,cRLSign")
    names = {"server": "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth",
             "client": "subjectAltName=email:ann@example.com\nextendedKeyUsage=clientAuth"}
    for name, extensions in names.items():
        (Path(directory) / f"{name}.ext").write_text(extensions + "\nbasicConstraints=critical,CA:FALSE\n")
        openssl("req", "-new", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "30", "-extfile", f"{name}.ext", "-out",
                f"{name}.crt")
        both = (Path(directory) / f"{name}.crt").read_text() + (Path(directory) / f"{name}.key").read_text()
        (Path(directory) / f"{name}.pem").write_text(both)


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class Cistern:
    def __init__(self, program, origin):
        self.temporary = tempfile.TemporaryDirectory(prefix="cistern-clients-")
        directory = self.temporary.name
        make_certificates(directory)
        self.clear = Door("clear", "http", free_port(), directory)
        self.tls = Door("TLS", "https", free_port(), directory)
        self.mutual = Door("TLS, both ways", "https", free_port(), directory, asks_for_certificate=True)
        self.balanced = Door("PROXY", "http", free_port(), directory)
        # Rows follow one another quickly while the origin is down: each client is to see its failure, not the memory of another's.
        settings = Path(directory) / "cistern.yaml"
        settings.write_text(f"""upstream: {{url: "http://{HOST}:{origin.server_port}"}}
failure: {{threshold: 1000}}
listen:
  - {{address: "{HOST}:{self.clear.port}", h2c: true}}
  - "https://{HOST}:{self.tls.port}"
  - {{address: "https://{HOST}:{self.mutual.port}", client_verify: required}}
  - {{address: "{HOST}:{self.balanced.port}", proxy_protocol: true}}
trusted_proxies: ["{HOST}"]
tls: {{certificates: ["{directory}/server.pem"], client_ca: "{directory}/ca.pem"}}
store: {{directory: "{directory}/store"}}
routes: [{{name: live, path: "/live/**", upgrade: [websocket]}}]
log: {{level: error}}
""")
        self.process = subprocess.Popen([program, "serve", "--config", settings], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                return socket.create_connection((HOST, self.balanced.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
        raise SystemExit("Cistern does not start")

    def resident_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.temporary.cleanup()

"""What a hit pays for a verified identity (credentials.identity.jwt) once its token has been seen, beside a hit that has a partition of its own by its token's bytes.

    bench.py --identities

Bar: 1.5 µs more. The token is signed with RS256 by a key that is made for it.
"""
import base64
import json
import os
import subprocess
import time
from pathlib import Path

from codings import Codings

CONFIGURATION = """
routes:
  - name: known
    path: /known/**
    credentials: {{identity: {{jwt: {{keys: {keys}, issuer: ["https://issuer.test"], audience: [bench]}}}}}}
"""
BAR = 1.5


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def text(value):
    return base64url(json.dumps(value, separators=(",", ":")).encode())


class Identities(Codings):
    def start(self):
        bench, directory = self.bench, Path(self.bench.directory)
        key = f"{directory}/token.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        modulus = subprocess.run(["openssl", "rsa", "-in", key, "-noout", "-modulus"], check=True, capture_output=True, text=True).stdout
        number = bytes.fromhex(modulus.split("=")[1].strip())
        keys = {"keys": [{"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "n": base64url(number), "e": "AQAB"}]}
        (directory / "keys.json").write_text(json.dumps(keys))
        claims = {"iss": "https://issuer.test", "aud": "bench", "sub": "user-1", "scope": "read", "exp": int(time.time()) + 36_000}
        signed = text({"alg": "RS256", "kid": "one", "typ": "JWT"}) + "." + text(claims)
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=signed.encode(), check=True, capture_output=True).stdout
        self.token = signed + "." + base64url(signature)
        (directory / "identities.yaml").write_text(CONFIGURATION.format(keys=f"{directory}/keys.json"))
        bench.start_origin()
        self.wait_for(bench.origin_port)
        self.process = bench.start_cistern("identities", ["--config", f"{directory}/identities.yaml", "--set", "shards=1"])
        self.wait_for(bench.port, "/healthz")

    def run(self):
        self.start()
        # Few come again within a second, so that they are not looked up at all; many do not.
        for title, count in (("hits that come again within a second", 100), ("hits that are looked up", 100_000)):
            environment = {"COUNT": str(count), "NEXT": "1", "TOKEN": self.token}
            contenders = {name: {"PREFIX": f"/{name}/", **environment} for name in ("known", "bytes")}
            for contender in contenders:
                self.fill(f"/{contender}/", count)
            figures = self.compare(contenders)
            more = figures["known"] - figures["bytes"]
            details = ", ".join(f"{name} {figure:.2f} µs" for name, figure in figures.items())
            print(f"| {title}: a verified identity beside a token's bytes | {more:+.2f} µs (bar {BAR}) | {details} | {'reached' if more <= BAR else 'missed'} |", flush=True)

    def fields(self):
        return f"Authorization: Bearer {self.token}\r\n"

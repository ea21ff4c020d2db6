"""Verified identities (credentials.identity.jwt): the additional cost of a hit with a token that has been verified before, compared with a
hit whose partition is made of the token's bytes. The token is signed with RS256."""
import base64
import json
import subprocess
import time
from pathlib import Path

from servers import Load

CONFIGURATION = """
routes:
  - name: known
    path: /known/**
    credentials: {{identity: {{jwt: {{keys: {dir}/keys.json, issuer: ["https://issuer.test"], audience: [bench]}}}}}}
"""
LIMIT = 1.5


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encoded(value):
    return base64url(json.dumps(value, separators=(",", ":")).encode())


def make_token(directory):
    """Writes the issuer's keys, and returns a token."""
    key = f"{directory}/token.key"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    modulus = subprocess.run(["openssl", "rsa", "-in", key, "-noout", "-modulus"], check=True, capture_output=True, text=True).stdout
    number = bytes.fromhex(modulus.split("=")[1].strip())
    keys = {"keys": [{"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "n": base64url(number), "e": "AQAB"}]}
    (Path(directory) / "keys.json").write_text(json.dumps(keys))
    claims = {"iss": "https://issuer.test", "aud": "bench", "sub": "user-1", "scope": "read", "exp": int(time.time()) + 36_000}
    signed = encoded({"alg": "RS256", "kid": "one", "typ": "JWT"}) + "." + encoded(claims)
    signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=signed.encode(), check=True, capture_output=True).stdout
    return signed + "." + base64url(signature)


def run(servers, report):
    token = make_token(servers.directory)
    process = servers.start_cistern("identities", config=servers.configuration("identities.yaml", CONFIGURATION))
    port = servers.port["identities"]
    # The first are repeated within a second, so that the look-up is skipped; the second are not.
    for title, count in (("repeated hit", 100), ("hit", 100_000)):
        loads = {}
        for name in ("known", "bytes"):
            servers.fill(port, f"/{name}/{{}}", count, fields=f"Authorization: Bearer {token}\r\n")
            environment = {"PREFIX": f"/{name}/", "COUNT": str(count), "NEXT": "1", "TOKEN": token}
            loads[name] = Load(process, port, script="items.lua", environment=environment)
        cpu = {name: figures[0] for name, figures in servers.compare(loads).items()}
        report.add(f"{title}, additional cost of a verified identity", cpu["known"] - cpu["bytes"], "µs", limits={None: LIMIT},
                   note=f"hit: {cpu['bytes']:.1f} µs")
    servers.stop(process)

"""Signed tokens (RFC 7519, RFC 8037), as an issuer makes them, by openssl."""
import base64
import itertools
import json
import os
import subprocess
import time


def coded(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=")


class Tokens:
    """A key of the run's own, its set of keys in the file `keys`, and one of somebody else's."""

    CHANGES = {
        "refreshed": {},
        "expired": {"exp": -180},
        "long expired": {"exp": -3600},
        "other": {"sub": "bob"},
        "fewer rights": {"scope": "read"},
        "another audience": {"aud": "elsewhere"},
        "forged": {},
        "none": {},
    }

    def __init__(self, directory):
        self.directory, self.numbers = directory, itertools.count(1)
        for name in ("own", "foreign"):
            self.openssl("genpkey", "-algorithm", "ed25519", "-out", self.file(name))
        # The key is the end of its DER form.
        public = self.openssl("pkey", "-in", self.file("own"), "-pubout", "-outform", "DER")[-32:]
        self.keys = os.path.join(directory, "keys.json")
        with open(self.keys, "w", encoding="ascii") as out:
            json.dump({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "own", "x": coded(public).decode()}]}, out)

    def file(self, name):
        return os.path.join(self.directory, f"token-{name}.pem")

    def openssl(self, *arguments):
        return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout

    def make(self, user):
        """Each time another one."""
        now, number = int(time.time()), next(self.numbers)
        claims = {"iss": "https://id.test", "aud": "api", "sub": "ann", "scope": "read write", "iat": now, "exp": 300, "jti": str(number)}
        claims.update(self.CHANGES[user])
        claims["exp"] += now
        head = {"alg": "none" if user == "none" else "EdDSA", "kid": "own"}
        message = coded(json.dumps(head).encode()) + b"." + coded(json.dumps(claims).encode())
        if user == "none":
            return message + b"."
        file = os.path.join(self.directory, f"token-{number}")
        with open(file, "wb") as out:
            out.write(message)
        key = self.file("foreign" if user == "forged" else "own")
        return message + b"." + coded(self.openssl("pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", file))

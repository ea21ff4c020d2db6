#!/usr/bin/env python3
"""Writes the software bill of materials of a release as CycloneDX 1.5 JSON: sbom.py BINARY VERSION ARCHITECTURE EPOCH < linked-packages.
Components with a version are linked into the program. Components without one are shared libraries of the system."""

import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import uuid


def component(kind, name, version, architecture):
    """A component that is linked in. Licences are those that the package's copyright file names."""
    if kind == "deb":
        release = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release") if "=" in line)
        distribution = f"{release['ID']}-" + release["VERSION_ID"].strip('"')
        reference = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}&distro={distribution}"
        text = pathlib.Path(f"/usr/share/doc/{name}/copyright").read_text()
        licences = sorted({match.strip() for match in re.findall(r"^License:(.+)$", text, re.M)})
    else:
        reference = f"pkg:swift/github.com/{name}@{version}" if kind == "swift" else f"pkg:generic/swift-runtime@{version}"
        licences = ["Apache-2.0"]
    result = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
    if licences:
        result["licenses"] = [{"license": {"id": one} if one == "Apache-2.0" else {"name": one}} for one in licences]
    result["properties"] = [{"name": "cistern:linking", "value": "static"}]
    return result


def shared(binary):
    """Shared libraries that the program names, by soname."""
    output = subprocess.run(["readelf", "-d", binary], check=True, capture_output=True, text=True).stdout
    for name in sorted(re.findall(r"\(NEEDED\).*\[(.+)\]", output)):
        yield {"type": "library", "bom-ref": f"shared:{name}", "name": name, "scope": "required",
               "properties": [{"name": "cistern:linking", "value": "shared, from the system"}]}


def main():
    binary, version, architecture, epoch = sys.argv[1:]
    linked = {}
    for line in sys.stdin:
        kind, name, number, _ = line.rstrip("\n").split("\t")
        linked[name] = component(kind, name, number, architecture)
    components = [*linked.values(), *shared(binary)]
    digest = hashlib.sha256(pathlib.Path(binary).read_bytes()).hexdigest()
    program = f"pkg:generic/cistern@{version}?arch={architecture}"
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, program + '#' + digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": program, "name": "cistern", "version": version, "purl": program,
                          "hashes": [{"alg": "SHA-256", "content": digest}]},
        },
        "components": components,
        "dependencies": [{"ref": program, "dependsOn": sorted(one["bom-ref"] for one in components)}],
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()

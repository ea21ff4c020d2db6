#!/usr/bin/env python3
"""Holds docker/*.yaml against what reads them: Kubernetes' schema (kubernetes-validate, of PyPI, which knows 1.29 as the oldest with side-cars) and
Cistern itself, which checks the settings and command lines in them. Prints a line for each; ends with 1 where one is wrong."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KUBERNETES = "1.29"
failed = False


def tell(problem, what):
    global failed
    failed = failed or bool(problem)
    print(f"{'FAIL' if problem else 'ok  '}  {what}{': ' + problem.strip() if problem else ''}", flush=True)


def cistern(binary, arguments, environment):
    outcome = subprocess.run(
        [binary, *arguments], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", **environment})
    return "" if outcome.returncode == 0 else outcome.stdout + outcome.stderr


def containers(resource):
    template = resource.get("spec", {}).get("template", {}).get("spec", {})
    return template.get("initContainers", []) + template.get("containers", [])


def check_settings(binary, resources, file):
    """Each command line of Cistern's, with the files that the configuration maps hold."""
    with tempfile.TemporaryDirectory() as folder:
        maps = {r["metadata"]["name"]: r["data"] for r in resources if r["kind"] == "ConfigMap"}
        for resource in resources:
            for container in containers(resource):
                if container["name"] != "cistern":
                    continue
                arguments = ["check" if word == "serve" else word for word in container["args"]]
                arguments += ["--cache-dir", folder]
                for name in ("secret", "password"):
                    (pathlib.Path(folder) / name).write_text("s" * 64)
                for data in maps.values():
                    for name, text in data.items():
                        path = pathlib.Path(folder) / name
                        path.write_text(text.replace("/run/fleet/", folder + "/"))
                        arguments = [str(path) if word == f"/etc/cistern/{name}" else word for word in arguments]
                environment = {one["name"]: one["value"] for one in container.get("env", [])}
                tell(cistern(binary, arguments, environment), f"{file}: the settings of {resource['kind']} {resource['metadata']['name']}")


def check(binary, text, file):
    resources = list(yaml.safe_load_all(text))
    for resource in resources:
        problem = ""
        try:
            kubernetes_validate.validate(resource, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            problem = f"{'.'.join(map(str, error.path))}: {error.message}"
        tell(problem, f"{file}: {resource['kind']} {resource['metadata']['name']}")
    check_settings(binary, resources, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cistern", default=ROOT / ".build/release/cistern")
    options = parser.parse_args()
    for file in sorted((ROOT / "docker").glob("kubernetes*.yaml")):
        text = file.read_text()
        check(str(options.cistern), text, file.name)
        if "#+ " in text:
            check(str(options.cistern), text.replace("#+ ", ""), f"{file.name}, with what stands behind #+")
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    command = [word.replace("${UPSTREAM:?say which API: UPSTREAM=https://api.example.com}", "https://api.example.com") for word in
               services["cistern"]["command"]]
    with tempfile.TemporaryDirectory() as folder:
        tell(cistern(str(options.cistern), ["check", *command[1:], "--cache-dir", folder], {}), "compose.yaml: the settings of cistern")
    missing = [v.split(":")[0] for s in services.values() for v in s.get("volumes", [])
               if v.startswith("./") and not (ROOT / "docker" / v.split(":")[0]).exists()]
    tell(", ".join(missing), "compose.yaml: its files are there")
    sys.exit(failed)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Validates the files of docker/ for Kubernetes and Compose. Builds each kustomization, and checks its resources with Kubernetes' schema
(kubernetes-validate from PyPI; 1.29 is the oldest version with sidecars), its references, and its settings with Cistern itself. Uses an
installed kustomize, or that of Debian 13 in a root made by debootstrap. Prints a line for each check. Exits with 1 if one failed. --write
copies docker/prometheus-rules.yml into the PrometheusRule."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

from deb_test import Chroot

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docker/kubernetes"
RULES = FOLDER / "monitoring/prometheus-rule.yaml"
KUBERNETES = "1.29"
OPERATOR = "monitoring.coreos.com/v1"
failed = False


def tell(problem, what):
    global failed
    failed = failed or bool(problem)
    print(f"{'FAIL' if problem else 'ok  '}  {what}{': ' + problem.strip() if problem else ''}", flush=True)


def cistern(binary, arguments, environment):
    outcome = subprocess.run(
        [binary, *arguments], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", **environment}
    )
    return "" if outcome.returncode == 0 else outcome.stdout + outcome.stderr


class Kustomize:
    def __init__(self, roots):
        self.chroot = None
        if not shutil.which("kustomize"):
            self.chroot = Chroot(roots / "trixie", "trixie")
            outcome = self.chroot.run("apt-get update -qq && apt-get install -y -qq --no-install-recommends kustomize")
            if outcome.returncode != 0:
                raise SystemExit(outcome.stdout)

    def build(self, folder, changed=None):
        """The resources of a kustomization below FOLDER. `changed` gets a comment, as if it had been edited."""
        top = self.chroot.path("/tmp") if self.chroot else pathlib.Path(tempfile.gettempdir())
        with tempfile.TemporaryDirectory(dir=top) as temporary:
            copy = pathlib.Path(temporary) / "kubernetes"
            shutil.copytree(FOLDER, copy)
            if changed:
                with (copy / changed).open("a") as file:
                    file.write("# changed\n")
            place = copy / folder
            command = ["kustomize", "build", str(place)]
            if self.chroot:
                command = ["chroot", self.chroot.root, "kustomize", "build", "/" + str(place.relative_to(self.chroot.root))]
            outcome = subprocess.run(command, capture_output=True, text=True)
        tell("" if outcome.returncode == 0 else outcome.stderr, f"{folder}: kustomize builds it")
        return [one for one in yaml.safe_load_all(outcome.stdout) if one]

    def remove(self):
        if self.chroot:
            self.chroot.remove()


def pod(resource):
    return resource.get("spec", {}).get("template", {}).get("spec", {})


def containers(resource):
    return pod(resource).get("initContainers", []) + pod(resource).get("containers", [])


def image_environment():
    """The settings that the image itself makes. They override the settings file."""
    return dict(re.findall(r"(CISTERN_\w+)=(\S+)", (ROOT / "docker/Dockerfile").read_text()))


def check_settings(binary, resources, name):
    """Runs `cistern check` with the command line, environment and ConfigMap of each Cistern."""
    with tempfile.TemporaryDirectory() as folder:
        maps = {r["metadata"]["name"]: r["data"] for r in resources if r["kind"] == "ConfigMap"}
        for secret in ("secret", "password"):
            (pathlib.Path(folder) / secret).write_text("s" * 64)
        for resource in resources:
            volumes = {volume["name"]: volume for volume in pod(resource).get("volumes", [])}
            for container in containers(resource):
                if container["name"] != "cistern":
                    continue
                arguments = ["check" if word == "serve" else word for word in container["args"]] + ["--cache-dir", folder]
                for mount in container["volumeMounts"]:
                    data = maps.get(volumes.get(mount["name"], {}).get("configMap", {}).get("name"), {})
                    for file, text in data.items():
                        (pathlib.Path(folder) / file).write_text(text)
                        arguments = [f"{folder}/{file}" if word == f"{mount['mountPath']}/{file}" else word for word in arguments]
                environment = image_environment() | {
                    one["name"]: one["value"].replace("/run/fleet/", folder + "/") for one in container.get("env", [])
                }
                tell(cistern(binary, arguments, environment), f"{name}: the settings of {resource['kind']} {resource['metadata']['name']}")


def references(resources):
    """Names and labels that lead nowhere."""

    def of_kind(*kinds):
        return [resource for resource in resources if resource["kind"] in kinds]

    def selects(selector, labels):
        return bool(selector) and selector.items() <= labels.items()

    workloads = of_kind("StatefulSet", "Deployment")
    pods = [
        (one["spec"]["template"]["metadata"]["labels"], {port["name"] for c in containers(one) for port in c.get("ports", [])})
        for one in workloads
    ]
    maps = {one["metadata"]["name"] for one in of_kind("ConfigMap")}
    services = {one["metadata"]["name"]: one for one in of_kind("Service")}
    for one in workloads:
        named = {volume["configMap"]["name"] for volume in pod(one).get("volumes", []) if "configMap" in volume}
        yield from (f"no ConfigMap {name}" for name in named - maps)
        if not selects(one["spec"]["selector"]["matchLabels"], one["spec"]["template"]["metadata"]["labels"]):
            yield f"{one['metadata']['name']} does not select its pods"
        if one["kind"] == "StatefulSet" and one["spec"]["serviceName"] not in services:
            yield f"no Service {one['spec']['serviceName']}"
        yield from (f"{container['image']} has no registry" for container in containers(one) if "/" not in container["image"])
    for name, service in services.items():
        ports = {port["targetPort"] for port in service["spec"]["ports"]}
        if not any(selects(service["spec"]["selector"], labels) and ports <= names for labels, names in pods):
            yield f"Service {name} selects no pods with its ports"
    for policy in of_kind("NetworkPolicy", "PodDisruptionBudget"):
        selector = policy["spec"].get("podSelector") or policy["spec"].get("selector")
        ports = {port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
        if not any(selects(selector.get("matchLabels"), labels) and ports <= names for labels, names in pods):
            yield f"{policy['kind']} selects no pods with its ports"
    for ingress in of_kind("Ingress"):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                if backend["port"]["name"] not in {
                    port["name"] for port in services.get(backend["name"], {"spec": {"ports": []}})["spec"]["ports"]
                }:
                    yield f"Ingress names {backend}, which is not there"
    for monitor in of_kind("ServiceMonitor"):
        found = [one for one in services.values() if selects(monitor["spec"]["selector"]["matchLabels"], one["metadata"].get("labels", {}))]
        ports = {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}
        if not any(
            ports <= {port["name"] for port in one["spec"]["ports"]} and one["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "cistern"
            for one in found
        ):
            yield "ServiceMonitor selects no Service with its port and the job name cistern"


def check_rules(resource, name):
    """promtool accepts the rules, which equal those of docker/prometheus-rules.yml."""
    expected = yaml.safe_load((ROOT / "docker/prometheus-rules.yml").read_text())
    tell(
        "" if resource["spec"] == expected else "run manifests.py --write",
        f"{name}: PrometheusRule has the rules of docker/prometheus-rules.yml",
    )
    if shutil.which("promtool"):
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump(resource["spec"], file)
            file.flush()
            outcome = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
        tell("" if outcome.returncode == 0 else outcome.stdout + outcome.stderr, f"{name}: promtool accepts the rules")


def check(binary, kustomize, name):
    resources = kustomize.build(name)
    for resource in resources:
        if resource["apiVersion"] == OPERATOR:
            # The operator's schemas are not available here.
            if resource["kind"] == "PrometheusRule":
                check_rules(resource, name)
            continue
        problem = ""
        try:
            kubernetes_validate.validate(resource, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            problem = f"{'.'.join(map(str, error.path))}: {error.message}"
        tell(problem, f"{name}: {resource['kind']} {resource['metadata']['name']}")
    tell("; ".join(references(resources)), f"{name}: all references lead to resources")
    check_settings(binary, resources, name)
    return resources


def check_hash(kustomize, name, file):
    """A changed settings file must change the pods, so that a rollout replaces them."""
    before, after = ([pod(one) for one in kustomize.build(name, changed) if pod(one)] for changed in (None, file))
    tell("" if before != after else "the pods stay", f"{name}: a change of {file} replaces the pods")


def write_rules():
    rules = (ROOT / "docker/prometheus-rules.yml").read_text()
    head = (
        f"# Generated from docker/prometheus-rules.yml: Tests/Packaging/manifests.py --write\n"
        f"apiVersion: {OPERATOR}\nkind: PrometheusRule\n"
        "metadata:\n  name: cistern\n  labels: {app.kubernetes.io/name: cistern}\nspec:\n"
    )
    RULES.write_text(head + "".join(f"  {line}" if line.strip() else line for line in rules.splitlines(keepends=True)))


def check_compose(binary):
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    command = [re.sub(r"\$\{UPSTREAM:\?.*\}", "https://api.example.com", word) for word in services["cistern"]["command"]]
    with tempfile.TemporaryDirectory() as folder:
        tell(cistern(binary, ["check", *command[1:], "--cache-dir", folder], {}), "compose.yaml: the settings of cistern")
    missing = [
        volume.split(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./") and not (ROOT / "docker" / volume.split(":")[0]).exists()
    ]
    tell(", ".join(missing), "compose.yaml: its files exist")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cistern", default=str(ROOT / ".build/release/cistern"))
    parser.add_argument("--roots", type=pathlib.Path, default=ROOT / ".build/roots")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write:
        write_rules()
        return
    kustomize = Kustomize(options.roots)
    try:
        for name in ("base", "overlays/edge", "overlays/fleet", "overlays/sidecar"):
            check(options.cistern, kustomize, name)
        check_hash(kustomize, "overlays/edge", "base/cistern.yaml")
        check_hash(kustomize, "overlays/sidecar", "overlays/sidecar/cistern.yaml")
    finally:
        kustomize.remove()
    check_compose(options.cistern)
    sys.exit(failed)


if __name__ == "__main__":
    main()

"""A real Prometheus with the rules of docker/, all of whose times are shortened by one factor; and what fired when."""
import json
import os
import re
import subprocess
import time
import urllib.parse
import urllib.request

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RULES = os.path.join(ROOT, "docker", "prometheus-rules.yml")
# The longest interval that is usual for both. Rules have to be in time with it; docker/prometheus.yml scrapes more often.
INTERVAL = 15
# How long Prometheus takes a sample for the present value.
LOOKBACK = 300
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(seconds, speed):
    return f"{max(1, round(seconds * 1000 / speed))}ms"


def shorten(rules, speed):
    """The rules for a clock that runs `speed` times as fast. `for` and ranges become shorter. A rate, which Prometheus tells for a real second, becomes that
    of a second of the quick clock. Values in seconds stay: Cistern tells them by the quick clock. Only what the processor takes is not quick."""
    def shortened(match):
        return match[1] + duration(int(match[2]) * SECONDS[match[3]], speed) + match[4]

    rules = re.sub(r"\brate\([^()]*\)", lambda match: f"({match[0]} / {speed})", rules)
    rules = rules.replace("cistern_loop_longest_wait_seconds", f"(cistern_loop_longest_wait_seconds / {speed})")
    rules = re.sub(r"(^ +for: )(\d+)([smhd])($)", shortened, rules, flags=re.MULTILINE)
    return re.sub(r"(\[)(\d+)([smhd])(\])", shortened, rules)


def alerts(rules):
    """The names of all alerts, in the order of the file."""
    return re.findall(r"^ +- alert: (\w+)$", rules, re.MULTILINE)


class Prometheus:
    """- Parameter targets: the port of each scene, by its name, which is the label `instance`."""

    def __init__(self, directory, rules, targets, port, speed):
        self.speed, self.port = speed, port
        interval = duration(INTERVAL, speed)
        with open(rules, encoding="utf-8") as file:
            self.rules = file.read()
        with open(os.path.join(directory, "rules.yml"), "w", encoding="utf-8") as file:
            file.write(shorten(self.rules, speed))
        jobs = [{"job_name": "cistern", "static_configs": [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}} for name, port in targets.items()]}]
        # JSON is YAML.
        configuration = {"global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
                         "rule_files": ["rules.yml"], "scrape_configs": jobs}
        path = os.path.join(directory, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(configuration, file)
        self.log_path = os.path.join(directory, "prometheus.log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={directory}/tsdb", f"--web.listen-address=127.0.0.1:{port}",
                 f"--query.lookback-delta={duration(LOOKBACK, speed)}"], stdout=log, stderr=log)

    def wait_ready(self):
        end = time.monotonic() + 30
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.series("vector(1)", time.time()):
                    return
            except (OSError, ValueError):
                time.sleep(0.05)
        with open(self.log_path, encoding="utf-8") as log:
            raise SystemExit(f"Prometheus does not start: {log.read()[-2000:]}")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def ask(self, path, **arguments):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=30) as response:
            return json.load(response)["data"]

    def series(self, expression, at):
        return self.ask("query", query=expression, time=at)["result"]

    def timeline(self, expression, begin, end):
        """Each series' samples between two times: its labels, and pairs of time and value. The step is half an interval."""
        step = INTERVAL / self.speed / 2
        result = self.ask("query_range", query=expression, start=begin, end=end, step=step)["result"]
        return [(each["metric"], [(float(at), float(value)) for at, value in each["values"]]) for each in result]

    def summaries(self, instance):
        """The texts of the alerts of an instance that fire now, one a line."""
        lines = []
        for alert in self.ask("alerts")["alerts"]:
            labels = alert["labels"]
            if alert["state"] == "firing" and labels.get("instance") == instance:
                lines.append(f"{name_of(labels)}: {alert['annotations'].get('summary', '')}")
        return "\n".join(sorted(lines))

    def firings(self, instance, begin, end):
        """When each alert of an instance fired between two times: its name, and pairs of first and last time seen."""
        found = {}
        tolerance = INTERVAL / self.speed * 1.2
        for labels, samples in self.timeline(f'ALERTS{{instance="{instance}",alertstate="firing"}}', begin, end):
            spans = found.setdefault(name_of(labels), [])
            for at, _ in samples:
                if spans and at - spans[-1][1] <= tolerance:
                    spans[-1][1] = at
                else:
                    spans.append([at, at])
        for spans in found.values():
            spans.sort()
        return found


def name_of(labels):
    """`CisternUpstreamDown`, or `CisternUpstreamDown{api=orders}`."""
    api = labels.get("api")
    return labels.get("alertname", "") + (f"{{api={api}}}" if api else "")

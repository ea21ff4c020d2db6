"""The results of a run: rows that are printed as they are measured, and then written between two markers of the README."""
import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path

README = Path(__file__).resolve().parent / "README.md"
TITLES = {
    "nginx pass": "nginx without cache", "nginx pass tls": "nginx without cache, HTTP/1.1", "nginx stale": "nginx", "haproxy": "HAProxy",
    "floor": "bare loop", "floor pass": "bare loop with upstream", "bare tls": "bare TLS loop", "bare h2": "bare nghttp2",
}


def title(server):
    return TITLES.get(server, server)


def text(figure, unit):
    places = 0 if figure >= 1000 or float(figure).is_integer() else 1 if abs(figure) >= 1 else 2
    return f"{figure:,.{places}f}{unit and ' '}{unit}"


class Row:
    """One figure of Cistern, its ratios to the figures of other servers, and the limits.

    - others: {server: figure}
    - limits: {server: largest ratio}; None as the server: largest figure. With is_least, the smallest ones.
    - note: what else the run has shown
    """

    def __init__(self, title, figure, unit, others=None, limits=None, is_least=False, note=""):
        self.title, self.figure, self.unit, self.note = title, figure, unit, note
        self.others, self.limits, self.is_least = others or {}, limits or {}, is_least

    def missed(self):
        measured = {None: self.figure, **{name: self.figure / other for name, other in self.others.items()}}
        # Ratios are compared as they are printed.
        return [name for name, limit in self.limits.items()
                if (round(measured[name], 2) < limit if self.is_least else round(measured[name], 2) > limit)]

    def cells(self):
        compared = [f"{self.figure / other:.2f} × {title(name)} ({text(other, self.unit)})" for name, other in self.others.items()]
        compared += [self.note] if self.note else []
        limits = [text(limit, self.unit) if name is None else f"{limit:.2f}" for name, limit in self.limits.items()]
        if len(self.others) > 1:
            limits = [f"{limit} {title(name)}" for limit, name in zip(limits, self.limits)]
        missed = self.missed()
        reached = "" if not self.limits else "**no**" if missed else "yes"
        if missed and len(self.limits) > 1:
            reached += ": " + ", ".join(map(title, missed))
        least = "≥ " if self.is_least and limits else ""
        return [self.title, text(self.figure, self.unit), "; ".join(compared), least + ", ".join(limits), reached]


class Report:
    def __init__(self, options):
        self.options, self.rows, self.began = options, [], time.monotonic()

    def progress(self, message):
        elapsed = int(time.monotonic() - self.began)
        print(f"[{elapsed // 60:2}:{elapsed % 60:02}] {message}", file=sys.stderr, flush=True)

    def add(self, *arguments, **options):
        row = Row(*arguments, **options)
        self.rows.append(row)
        print("| " + " | ".join(row.cells()) + " |", flush=True)

    def table(self):
        lines = [self.machine(), "", "| Case | Cistern | Compared | Limit | Reached |", "|---|---|---|---|---|"]
        return "\n".join(lines + ["| " + " | ".join(row.cells()) + " |" for row in self.rows])

    def machine(self):
        model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
        versions = [f"Linux {os.uname().release.split('-')[0]}", *(f"{name} {version(command)}" for name, command in VERSIONS.items())]
        return (f"{datetime.date.today()}: {os.cpu_count()} cores ({model[1] if model else 'unknown'}), {', '.join(versions)}; "
                f"{self.options.rounds} rounds of {self.options.seconds} s.")


VERSIONS = {"nginx": ["nginx", "-v"], "HAProxy": ["haproxy", "-v"], "OpenSSL": ["openssl", "version"], "nghttp2": ["h2load", "--version"]}


def version(command):
    out = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"\d+\.\d+(\.\d+)?", out.stdout + out.stderr)
    return found[0] if found else "unknown"


def replace(name, content):
    """Replaces what is between `<!-- NAME -->` and `<!-- end of NAME -->` in the README."""
    whole = README.read_text()
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)"
    changed, count = re.subn(pattern, lambda found: f"{found[1]}{content}\n{found[2]}", whole, flags=re.S)
    if count != 1:
        raise SystemExit(f"{README} has no markers of {name}")
    README.write_text(changed)

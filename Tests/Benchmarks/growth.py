"""How the cost of a request grows with the number of targets, routes, APIs, connections and cores, and with the content's length."""
import textwrap
from pathlib import Path

import cases
from figure import Figure, short
from servers import HERE, TARGETS, Load
from table import replace

TARGET_COUNTS = {1_000: "1,000", 10_000: "10,000", 100_000: "100,000", 1_000_000: "1 million"}
ROUTES, APIS = (1, 10, 100), (1, 8, 64)
CONNECTIONS, CONNECTION_RATE, CONNECTION_SECONDS = (64, 512, 4096, 10_000), 20_000, 2
CONTENTS = {1 << 10: "1 KiB", 16 << 10: "16 KiB", 128 << 10: "128 KiB", 1 << 20: "1 MiB", 8 << 20: "8 MiB"}
CONTENT_CONNECTIONS, CONTENT_TARGETS, CONTENT_BYTES = 8, 16, 256 << 20
CPU = "CPU time per request, µs"
HIT, SAME, OTHER_HIT, OTHER_PASS = ("Cistern", "hit"), ("Cistern", "same data"), ("nginx", "hit"), ("nginx", "same data")


def named(count):
    return f"{count:,}"


def times(values):
    return f"{values[-1] / values[0]:.2f}"


class Growth:
    def __init__(self, servers, report):
        self.servers, self.report = servers, report

    def run(self, axes):
        for axis in axes:
            self.report.progress(f"growth: {axis}")
            figure, sentence = getattr(self, axis)()
            print(f"{axis}: {sentence}", flush=True)
            for line, values in figure.lines.items():
                shown = ", ".join(f"{label} {short(value)}" for (_, label), value in zip(figure.points, values))
                print(f"  {', '.join(line)}: {shown}", flush=True)
            if self.servers.options.write:
                (HERE / f"growth-{axis}.svg").write_text(figure.svg())
                replace(f"growth: {axis}", f"![{figure.title}](growth-{axis}.svg)\n\n{textwrap.fill(sentence, 140)}")
            for process in self.servers.running[:]:
                if process.name.startswith("growth"):
                    self.servers.stop(process)

    def lines(self, points, loads):
        """CPU of each point: {line: [figure, …]}. loads: {line: function of a point}."""
        figures = self.servers.compare({(line, point): load(point) for line, load in loads.items() for point in points})
        return {line: [figures[line, point][0] for point in points] for line in loads}

    def load(self, name, prefix, count, process, **others):
        environment = {"PREFIX": prefix, "COUNT": str(count), **others.pop("environment", {})}
        return Load(process, self.servers.port[name], script="items.lua", environment=environment, **others)

    def targets(self):
        """Half of the targets have a lifetime."""
        servers, processes, memory = self.servers, {}, {}
        for count in TARGET_COUNTS:
            name = f"growth targets {count}"
            processes[count] = servers.start_cistern(name)
            memory[count] = -processes[count].anonymous()
            for prefix in ("/items/", "/same/"):
                servers.fill_by_wrk(servers.port[name], prefix, count // 2)
            servers.settle(servers.port[name])
            memory[count] += processes[count].anonymous()
        lines = self.lines(TARGET_COUNTS, {
            line: lambda count, prefix=prefix: self.load(f"growth targets {count}", prefix, count // 2, processes[count])
            for line, prefix in ((HIT, "/items/"), (SAME, "/same/"))})
        counts = list(TARGET_COUNTS)
        each = (memory[counts[-1]] - memory[counts[0]]) / (counts[-1] - counts[0])
        return (Figure("Number of targets, requested at random", "targets in the store", CPU, list(TARGET_COUNTS.items()), lines),
                f"With 1 million targets, a hit takes {times(lines[HIT])} times the CPU time that it takes with 1,000, and confirmed data "
                f"{times(lines[SAME])} times. Each target takes {each:.0f} B of memory.")

    def routed(self, kind, counts, configuration):
        """Targets are spread evenly over /r0, /r1, …."""
        servers, processes = self.servers, {}
        for count in counts:
            name = f"growth {kind} {count}"
            file = Path(servers.directory) / f"{kind}-{count}.yaml"
            file.write_text(configuration(count))
            processes[count] = servers.start_cistern(name, config=str(file), upstream="origin" if kind == "routes" else None)
            for prefix in ("items", "same"):
                servers.fill(servers.port[name], lambda number: f"/r{number % count}/{prefix}/{number}", TARGETS)
        lines = self.lines(counts, {
            line: lambda count, prefix=prefix: self.load(
                f"growth {kind} {count}", prefix, TARGETS, processes[count], environment={"SPREAD": str(count), "NEXT": "1"})
            for line, prefix in ((HIT, "/items/"), (SAME, "/same/"))})
        return (Figure(f"Number of {kind}, requested evenly", f"number of {kind}", CPU, [(count, named(count)) for count in counts], lines),
                f"With {counts[-1]} {kind}, a hit takes {times(lines[HIT])} times the CPU time that it takes with one, and confirmed data "
                f"{times(lines[SAME])} times.")

    def routes(self):
        return self.routed("routes", ROUTES, lambda count: "routes:\n" + "".join(
            f"  - {{name: r{n}, path: /r{n}/**}}\n" for n in range(count)))

    def apis(self):
        upstream = f"http://127.0.0.1:{self.servers.port['origin']}"
        return self.routed("APIs", APIS, lambda count: "apis:\n" + "".join(
            f"  - {{name: r{n}, path: /r{n}/, upstream: [\"{upstream}\"]}}\n" for n in range(count)))

    def by_open_loop(self, points, kinds, arguments):
        """CPU of each point with openloop.

        - kinds: {line: (server, format of its targets)}
        - arguments: function of a point: rate, connections, seconds
        """
        servers = self.servers
        loads = {}
        for line, (server, path) in kinds.items():
            for point in points:
                target = path.replace("LENGTH", str(point))
                count = CONTENT_TARGETS if target != path else TARGETS
                servers.fill(server[1], target, count)
                loads[line, point] = (server, servers, servers.requests(target, count), *arguments(point))
            if line in (HIT, SAME):
                servers.settle(server[1])
        figures = servers.alternate(loads, lambda load: cases.open_loop(*load[:5], seconds=load[5]))
        return {line: [figures[line, point][2] for point in points] for line in kinds}

    def connections(self):
        own = self.servers.start_cistern("growth connections", "--set", "limits.connections=15000"), self.servers.port["growth connections"]
        lines = self.by_open_loop(
            CONNECTIONS, {HIT: (own, "/items/{}"), SAME: (own, "/same/{}"), OTHER_HIT: (self.servers.server("nginx"), "/items/{}"),
                          OTHER_PASS: (self.servers.server("nginx pass"), "/same/{}")},
            lambda count: (CONNECTION_RATE, count, CONNECTION_SECONDS))
        return (Figure(f"Number of connections, used in turn by {named(CONNECTION_RATE)} requests per second", "client connections", CPU,
                       [(count, named(count)) for count in CONNECTIONS], lines),
                f"With {named(CONNECTIONS[-1])} connections, a hit takes {times(lines[HIT])} times the CPU time that it takes with "
                f"{CONNECTIONS[0]} (nginx: {times(lines[OTHER_HIT])}), and confirmed data {times(lines[SAME])} times (nginx: "
                f"{times(lines[OTHER_PASS])}).")

    def content(self):
        """More targets than connections, so that no requests are collapsed. All requests are due at once."""
        own, other, other_pass = (self.servers.server(name) for name in ("cistern", "nginx", "nginx pass"))
        lines = self.by_open_loop(
            CONTENTS, {HIT: (own, "/items.LENGTH/{}"), SAME: (own, "/same.LENGTH/{}"), OTHER_HIT: (other, "/items.LENGTH/{}"),
                       OTHER_PASS: (other_pass, "/same.LENGTH/{}")},
            lambda length: (8 * min(20_000, CONTENT_BYTES // length), CONTENT_CONNECTIONS, 0.125))
        each = {line: values[-1] / 8192 for line, values in lines.items()}
        return (Figure(f"Length of the content, {CONTENT_CONNECTIONS} connections", "length of the content", CPU, list(CONTENTS.items()),
                       lines),
                f"Responses of 8 MiB take {each[HIT]:.2f} µs per KiB as hits (nginx: {each[OTHER_HIT]:.2f}) and {each[SAME]:.2f} µs as "
                f"confirmed data (nginx: {each[OTHER_PASS]:.2f}).")

    def cores(self):
        """The clients and the upstream share the cores with the servers."""
        servers = self.servers
        started = {("Cistern", 1): ("cistern", servers.server("cistern")[0]), ("HAProxy", 1): ("haproxy", servers.server("haproxy")[0]),
                   ("Cistern", 2): ("growth cistern", servers.start_cistern("growth cistern", cores="0,1", shards=2)),
                   ("HAProxy", 2): ("growth haproxy", servers.start_haproxy("growth haproxy", cores="0,1", threads=2))}
        loads = {}
        for (server, count), (name, process) in started.items():
            for operation, prefix in (("hit", "/items/"), ("same data", "/same/")):
                servers.fill(servers.port[name], prefix + "{}", TARGETS)
                loads[server, operation, count] = self.load(name, prefix, TARGETS, process, environment={"NEXT": "1"}, connections=128,
                                                            cores=("1", "0,1")[count - 1], threads=count)
        figures = servers.compare(loads)
        lines = {(server, operation): [figures[server, operation, count][1] / 1000 for count in (1, 2)]
                 for server in ("Cistern", "HAProxy") for operation in ("hit", "same data")}
        return (Figure("Number of cores", "cores", "thousand requests per second", [(1, "1"), (2, "2")], lines),
                f"Two cores serve {times(lines['Cistern', 'hit'])} times as many hits as one (HAProxy: {times(lines['HAProxy', 'hit'])}), "
                f"and {times(lines['Cistern', 'same data'])} times as many requests for confirmed data (HAProxy: "
                f"{times(lines['HAProxy', 'same data'])}). Clients and upstream share the cores.")


AXES = ("targets", "routes", "apis", "connections", "content", "cores")

#!/usr/bin/env python3
"""Lists the functions that a reader follows for one miss or one rescue, in the order of the calls, and counts changes of file."""
import collections, email.utils, os, re, shutil, socket, subprocess, sys, tempfile, threading, time

# Modules of values and text, whose functions a reader understands by their names.
VOCABULARY = {"HTTPCore", "JSON", "Hashing", "Locking", "Descriptors", "WellKnownNames", "Reactor", "CSystem", "CTLS", "CHash"}
# Functions that the event loop calls, in the order of one exchange.
ENTRIES = [r"^Downstream\.ClientConnection\.ready\(", r"^Upstream\.OriginConnection\.ready\(", r"^Upstream\.\w+\.ready\("]
# Work for other requests: the thread that writes to disk, and a timer.
OTHERS = re.compile(r"StoreWriter\.\(?drain\b|UpstreamClient\.\(?sweep\b")
BODY = b'{"items":[{"id":1,"name":"one"}],"total":1}'


def respond(connection):
    lines = connection.makefile("rb")
    while request := lines.readline():
        while lines.readline() not in (b"\r\n", b""):
            pass
        date = email.utils.formatdate(time.time(), usegmt=True).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (date, len(BODY), BODY))


class Origin:
    def __init__(self):
        self.listener, self.connections = socket.create_server(("127.0.0.1", 0)), []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def port(self): return self.listener.getsockname()[1]

    def accept(self):
        try:
            while True:
                self.connections.append(self.listener.accept()[0])
                threading.Thread(target=respond, args=self.connections[-1:], daemon=True).start()
        except OSError:
            pass

    def stop(self):
        for each in [self.listener, *self.connections]:
            each.shutdown(socket.SHUT_RDWR)
            each.close()


def get(connection, lines, number):
    """Responses have no freshness, so that each request is sent to the upstream."""
    connection.sendall(b"GET /items/%d HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n" % number)
    head = b"".join(iter(lines.readline, b"\r\n"))
    lines.read(int(re.search(rb"Content-Length: (\d+)", head)[1]))
    return head


def record(binary, kind, folder):
    """Returns the path of a Callgrind dump of one request. Valgrind 3.19 cannot read the debug information, so it gets a binary without."""
    stripped, origin = os.path.join(folder, "cistern"), Origin()
    subprocess.run(["objcopy", "--strip-debug", binary, stripped], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    proxy = subprocess.Popen(
        ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-strings=no", "--compress-pos=no",
         f"--callgrind-out-file={folder}/out", stripped, "serve", "--upstream", f"http://127.0.0.1:{origin.port}", "--listen",
         f"127.0.0.1:{port}", "--cache-dir", f"{folder}/store"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    control = lambda option: subprocess.run(["callgrind_control", option, str(proxy.pid)], check=True, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if proxy.poll() is not None: sys.exit("the proxy ended")
                time.sleep(0.1)
        lines = connection.makefile("rb")
        for number in range(8): get(connection, lines, number)
        if kind == "rescue": origin.stop()
        time.sleep(1)
        control("-z")
        status = re.search(rb"Cache-Status: (.*)\r", get(connection, lines, 99 if kind == "miss" else 3))[1].decode()
        assert ("stored" in status) if kind == "miss" else ("connection" in status), status
        time.sleep(1)
        control("-d")
        while not os.path.exists(f"{folder}/out.1"): time.sleep(0.1)
        time.sleep(1)
    finally:
        proxy.kill()
        proxy.wait()
    return f"{folder}/out.1"


def calls(dump):
    """Yields caller, callee, address of the call and address of the callee, for calls inside the program."""
    names, call = {}, None
    for line in open(dump, errors="replace"):
        if match := re.match(r"(c?ob|c?fn)=(.*?)('\d+)?$", line):
            names[match[1]] = match[2]
        elif line.startswith("calls="):
            call = line[6:].split()
        elif call and line.startswith("0x"):
            objects = names["ob"], names.pop("cob", names["ob"])
            if all(each.endswith("/cistern") for each in objects):
                yield names["fn"], names["cfn"], int(line.split()[0], 16), int(call[1], 16)
            call = None


def run(command, lines): return subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True).stdout


NESTED = re.compile(
    r"(?:partial apply(?: forwarder)? for |(?:implicit )?closure #\d+ (?:\(.*?\) -> .*? )?in |\S+ #\d+ .*? in |merged |static |"
    r"(?:generic|function signature) (?:not re-abstracted )?specialization <.*?> of )(.*)")
CLOSURE = re.compile(r"(partial apply|implicit closure|closure #|\S+ #\d+ )")
WITNESS = re.compile(r"(protocol witness for|dispatch thunk of)")
IGNORED = re.compile(
    r"^(outlined|lazy|reabstraction|(generic )?type metadata|variable init|default arg|value witness|one-time|block_|__|destroy|swift_|thunk for|"
    r"associated|enum tag|method lookup)|\.(__\w*)?deinit$|Addressor( :|$)|__derived_| (infix|prefix|postfix)[ (<]")
VALUE = re.compile(r"\.(getter|setter|modify|read|didset|willset)( :|$)|\.(__allocating_)?init[(<]")


class Walk:
    def __init__(self, dump, binary):
        found = list(calls(dump))
        symbols = sorted({name for call in found for name in call[:2]})
        plain = dict(zip(symbols, run(["swift", "demangle", "--compact"], symbols).split("\n")))
        addresses = sorted({address for call in found for address in call[2:]})
        places = run(["llvm-symbolizer", f"--obj={binary}", "--no-inlines", "--functions=none"], map(hex, addresses)).strip().split("\n\n")
        lines = dict(zip(addresses, (place.rsplit(":", 2) for place in places)))
        self.edges, self.places, self.heights = collections.defaultdict(set), {}, {}
        for caller, callee, site, entry in found:
            name, user = self.function(plain[callee]), self.function(plain[caller])
            # A call of a closure is a call of nobody: the body of the closure is read where it is passed.
            if name != user and (not CLOSURE.match(plain[callee])): self.edges[user].add((int(lines[site][1]), name))
            file = lines[entry][0]
            if "/Sources/" in file and not CLOSURE.match(plain[callee]):
                self.places[name] = (file.split("/Sources/")[1], int(lines[entry][1]))

    @staticmethod
    def function(name):
        """Closures, local functions and specializations are a part of their function."""
        while nested := NESTED.fullmatch(name): name = nested[1]
        return name.replace(".__allocating_init(", ".init(")

    def height(self, name, above=()):
        """Longest way down to a function without calls; -1 if a reader does not follow the function."""
        if name in above or OTHERS.search(name): return -1
        if name not in self.heights:
            below = max((self.height(callee, (*above, name)) for _, callee in self.edges[name]), default=-1)
            passes = WITNESS.match(name) or name in self.places and self.places[name][0].split("/")[0] in VOCABULARY
            if not WITNESS.match(name) and (name not in self.places or IGNORED.search(name)): below = -1
            elif not passes and not (VALUE.search(name) and below < 1): below += 1
            self.heights[name] = below if not passes or WITNESS.match(name) else -1
        return self.heights[name]

    def follow(self, least):
        """Yields depth and name of each followed function, once."""
        seen = set()

        def visit(name, depth):
            if name in seen or OTHERS.search(name): return
            seen.add(name)
            if self.height(name) < 0: return
            if not WITNESS.match(name):
                if self.height(name) >= least: yield depth, name
                depth += 1
            for _, callee in sorted(self.edges[name]): yield from visit(callee, depth)

        for entry in ENTRIES:
            for name in sorted(self.edges):
                if re.search(entry, name): yield from visit(name, 0)


def shortened(name):
    name = re.sub(r"\((\w+) in _[0-9A-F]+\)", r"\1", name)
    return re.sub(r"^(\(extension in \w+\):)?\w+\.", "", name).split("(")[0].split(" : ")[0]


def main():
    arguments = [each for each in sys.argv[1:] if not each.startswith("--")]
    if not arguments: sys.exit("usage: walk.py BINARY [miss] [rescue] [--all]")
    binary, kinds = arguments[0], arguments[1:] or ["miss", "rescue"]
    for kind in kinds:
        folder = tempfile.mkdtemp()
        try:
            walk = Walk(record(binary, kind, folder), binary)
        finally:
            shutil.rmtree(folder)
        files, changes, returns, count, last = [], 0, 0, 0, None
        for depth, name in walk.follow(0 if "--all" in sys.argv else 1):
            file, line = walk.places[name]
            print(f"{'  ' * depth}{shortened(name)}  {file}:{line}")
            count += 1
            changes += last not in (None, file)
            returns += last not in (None, file) and file in files
            if file not in files: files.append(file)
            last = file
        modules = len({file.split("/")[0] for file in files})
        print(f"{kind}: {count} calls, {len(files)} files, {modules} modules, {changes} changes of file, {returns} returns\n")


sys.setrecursionlimit(10000)
main()

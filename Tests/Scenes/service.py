"""Scenes in which something is wrong with Cistern itself, its disk or its surroundings: one for each rule that is not about the upstream."""
import errno
import os
import signal
import socket
import subprocess

from outages import USERS, fill
from play import Certificates, Skipped, compile_library, fresh, response
from scene import scene


class DiskFault:
    """Writes of a Cistern with this `environment` to its store fail, or wait, between `begin` and `end`."""

    def __init__(self, play):
        self.play = play
        self.path = os.path.join(play.directory, "fault")
        self.environment = {
            "LD_PRELOAD": compile_library("disk_faults", play.directory), "DISK_FAULT": self.path, "DISK_FAULT_DIRECTORY": play.store}

    def begin(self, fault):
        """- Parameter fault: the number of an error, or "wait"."""
        self.play.write("fault", str(fault))

    def end(self):
        os.remove(self.path)


@scene("slow-disk", "The disk takes no writes for a while: more waits for it than fits into memory.", fires=["CisternStoreDrops"], outputs={
    "gauge": r"^cistern_store_dropped_total [1-9]", "alert": r"^CisternStoreDrops: .*disk of `store\.directory`"})
def slow_disk(play):
    disk = DiskFault(play)
    play.make_upstream(lambda request: response(content=b'"' + os.urandom(400_000).hex().encode() + b'"', cache_control="max-age=600"))
    play.start("store.size=256MiB", environment=disk.environment)
    play.wait(30)
    disk.begin("wait")
    play.trouble()
    for number in range(150):
        play.get(f"/large/{number}")
    play.wait(60)
    disk.end()
    play.wait(60)
    play.look("/large/1")


@scene("access-log-unread", "Nobody reads the pipe that the access log is written to.", fires=["CisternAccessLogDrops"], outputs={
    "gauge": r"^cistern_access_log_dropped_total [1-9]", "alert": r"^CisternAccessLogDrops: .*`log\.access`"})
def access_log_unread(play):
    path = os.path.join(play.directory, "access")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    play.start(f"log.access={path}")
    play.trouble()
    for number in range(8_000):
        play.get(f"/users/{number % 5}/{'x' * 7_000}")
        if number % 100 == 0 and "\ncistern_access_log_dropped_total 0\n" not in play.metrics():
            break
    play.wait(60)
    play.look()
    os.close(reader)


@scene("collector-rejects", "The collector of traces rejects all spans.", fires=["CisternSpanDrops"], outputs={
    "gauge": r'^cistern_trace_spans_dropped_total\{reason="rejected"\} [1-9]', "alert": r"^CisternSpanDrops: .*`tracing\.endpoint`"})
def collector_rejects(play):
    play.make_upstream()
    collector = play.make_upstream(lambda request: response(400, b"{}"))
    play.start(f"tracing.endpoint=http://127.0.0.1:{collector.port}", "tracing.sample=1")
    play.wait(30)
    play.trouble()
    play.keep_asking(*USERS, every=1, count=2)
    play.wait(120)
    play.look()


@scene("certificate-expires", "A certificate for clients has less than two days left.", fires=["CisternCertificateEnds"], outputs={
    "gauge": r"^cistern_tls_certificate_left_seconds\{name=\"elsewhere\.invalid\"\} 1\d{5}", "alert": r"^CisternCertificateEnds: .*`cistern reload`"})
def certificate_expires(play):
    certificates = Certificates(play.directory)
    play.make_upstream()
    play.start(f"tls.certificates={certificates.file('another host.pem')}:{certificates.file('another host.key')}", listen=[f"https://127.0.0.1:{play.spare_port()}"])
    play.wait(60)
    play.look()


def reload_wrong(play):
    """A line of the file with the settings becomes wrong, and Cistern reads it again."""
    play.start(config="cache: {stale_for: 2d}\n")
    play.keep_asking(*USERS, every=4)
    play.wait(30)
    play.write("cistern.yaml", "cache: {stal_for: 2d}\n")
    play.trouble()
    play.process.send_signal(signal.SIGHUP)
    play.wait(60)


@scene("settings-refused", "A reload of the settings is refused, since a line of the file is wrong.", fires=["CisternSettingsRefused"], isQuick=True, outputs={
    "gauge": r'^cistern_settings_last_reload\{result="refused"\} 1$', "alert": r"^CisternSettingsRefused: .*`cistern check",
    "page": r"(?i)refused", "log": r"(?i)stal_for"})
def settings_refused(play):
    reload_wrong(play)
    play.look()


@scene("settings-corrected", "A reload is refused; the next one is applied, and the alert ends.", fires=["CisternSettingsRefused"])
def settings_corrected(play):
    reload_wrong(play)
    play.write("cistern.yaml", "cache: {stale_for: 3d}\n")
    play.process.send_signal(signal.SIGHUP)
    play.recover()
    play.wait(60)


@scene("faults-forgotten", "A fault for one path has been injected for more than an hour.", fires=["CisternFaultsForgotten"],
       may=("CisternUpstreamFailing",), limit=200, outputs={
           "gauge": r"^cistern_fault_rules 1$", "alert": r"^CisternFaultsForgotten: .*`cistern drill clear`", "page": r"(?i)fault", "status": r"(?i)fault"})
def faults_forgotten(play):
    play.start("admin.faults=true")
    play.tool("drill", "add", "--path", "/practice/**", "--status", "503", "--for", "3h")
    play.trouble()
    play.keep_asking(*USERS, every=10)
    play.wait(3_850)
    play.look("/practice/1")


@scene("killed", "Cistern does not run any more.", fires={"CisternScrapeGone": 120}, isQuick=True)
def killed(play):
    play.start()
    play.wait(30)
    play.trouble()
    play.process.kill()
    play.wait(150)
    summaries = play.run.prometheus.summaries(play.instance)
    play.expect("`cistern status --check`" in summaries, f"the alert says: {summaries}")


@scene("hit-ratio-fallen", "Half of an hour after the upstream has begun to say no-store, the store serves nothing any more.",
       fires=["CisternHitRatioFallen"], limit=240, outputs={
           "alert": r"^CisternHitRatioFallen: .*`cistern why`", "why": r"no-store", "stats": r"no_store",
           "gauge": r'^cistern_not_stored_total\{reason="no_store"\} [1-9]'})
def hit_ratio_fallen(play):
    play.make_upstream(fresh)
    play.start()
    play.keep_asking(*USERS, every=4, count=2)
    play.wait(1_200)
    play.tool("purge", "--all")
    play.upstream.play(lambda request: response(cache_control="no-store"))
    play.trouble()
    play.wait(3_300)
    play.look()


class Engine:
    """A Redis server of the scene's own."""

    def __init__(self, play):
        self.play, self.port = play, play.spare_port()
        self.start()

    def start(self):
        try:
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", self.play.directory],
                stdout=subprocess.DEVNULL)
        except FileNotFoundError:
            raise Skipped("needs redis-server") from None
        self.play.others.append(self.process)
        self.play.wait_until("the engine runs", lambda: self.isUp)

    def say(self, command):
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.sendall(f"{command}\r\n".encode())
            return sock.recv(100)

    @property
    def isUp(self):
        return self.say("PING").startswith(b"+PONG")

    def stop(self):
        self.process.terminate()
        self.process.wait(10)

    def settings(self, secret):
        path = self.play.write(f"secret-{secret}", secret * 32 + "\n")
        os.chmod(path, 0o600)
        return [f"share.servers=redis://127.0.0.1:{self.port}", "share.fleet=scene", f"share.secret_file={path}"]


def start_sharing(play):
    """Starts Cistern as a node of a fleet, and returns the engine."""
    engine = Engine(play)
    play.make_upstream(fresh)
    play.start(*engine.settings("s"), isQuick=False)
    return engine


@scene("engine-gone", "The engine through which nodes share is gone, and an operator purges.",
       fires=["CisternShareBlind", "CisternSharePurgesPending"], outputs={
           "gauge": (r"^cistern_share_seeing 0$", r'^cistern_share_pending_purges\{reason="not_reached"\} [1-9]'),
           "alert": (r"^CisternShareBlind: .*`cistern share status`", r"^CisternSharePurgesPending: .*`cistern share status`"),
           "status": r"^Purges of other nodes cannot be read since .*cistern share status",
           "why": r"Responses of other nodes were not looked up: Redis fails", "log": r"disconnected from the fleet's log: \S+ has ended the connection"})
def engine_gone(play):
    engine = start_sharing(play)
    fill(play, *USERS)
    play.wait(60)
    engine.stop()
    play.trouble()
    play.wait(45)
    play.tool("purge", "/users/1")
    play.wait(750)
    play.look()


@scene("engine-empty", "The engine comes back without its data.", fires=["CisternShareGap"], may=("CisternShareBlind",), outputs={
    "gauge": r'^cistern_share_gaps_total\{cause="\w+"\} [1-9]', "alert": r"^CisternShareGap: .*`share\.after_gap`", "log": r"(?i)epoch|lost|gap"})
def engine_empty(play):
    engine = start_sharing(play)
    fill(play, *USERS)
    play.tool("purge", "/users/1")
    play.wait(60)
    engine.stop()
    play.wait(10)
    engine.start()
    play.trouble()
    play.wait(120)
    play.look()


@scene("other-secret", "A node of an older version has another secret, and purges.", fires=["CisternShareSecret"], may=("CisternShareGap",), outputs={
    "gauge": r"^cistern_share_log_entries_unopened_total [1-9]", "alert": r"^CisternShareSecret: .*`share\.secret_file`", "log": r"(?i)secret"})
def other_secret(play):
    engine = start_sharing(play)
    play.wait(60)
    play.trouble()
    for number in range(1, 4):
        engine.say(f"XADD cistern:scene:{{log}} * k t n 0123456789abcdef s {number} v sealed")
        play.wait(30)
    play.look()


@scene("disk-errors", "The disk reports input/output errors.", fires=["CisternStoreWriteErrors"], may=("CisternStoreNotWritable",), outputs={
    "gauge": r"^cistern_store_write_errors_total\S* [1-9]", "alert": r"^CisternStoreWriteErrors: .*`store\.directory`", "log": r"(?i)cannot (be written|write) to"})
def disk_errors(play):
    disk = DiskFault(play)
    play.make_upstream(fresh)
    play.start(environment=disk.environment)
    fill(play, *USERS)
    play.wait(30)
    disk.begin(errno.EIO)
    play.trouble()
    play.keep_asking(*(f"/items/{number}" for number in range(200)), every=1)
    play.wait(150)
    play.look("/items/new")

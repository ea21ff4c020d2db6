"""Scenes of the store's disk: too small, filled by others, without inodes, over its quota, read-only, out of order."""
import errno
import os
import subprocess

from play import PATIENCE, Skipped, response
from scene import Not, scene
from service import DiskFault

SIZE = 6_000


def item(request):
    """A response of its own for each target. It stays fresh for longer than any scene lasts on a busy machine."""
    content = b'"' + request.target.encode() + b" " * SIZE + b'"'
    return response(content=content, cache_control="max-age=86400")


class Disk:
    """A tmpfs of the scene's own, which only Cistern and `run` see."""

    def __init__(self, play, options):
        if os.geteuid() != 0:
            raise Skipped("needs root, for a disk of its own")
        self.play = play
        self.mount = os.path.join(play.directory, "disk")
        os.mkdir(self.mount)
        play.store = os.path.join(self.mount, "store")
        inside = f'mount -t tmpfs -o {options},mode=700 none "{self.mount}" && exec "$@"'
        self.prefix = ["unshare", "-m", "--propagation", "private", "sh", "-c", inside, "sh"]

    def run(self, script):
        """Runs a script where the disk is seen, and returns what it prints."""
        done = subprocess.run(["nsenter", "-t", str(self.play.process.pid), "-m", "sh", "-c", script], check=False, timeout=PATIENCE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.mount)
        return done.stdout

    def fill(self):
        """Others take all that is left."""
        self.run(f'cat /dev/zero > "{self.mount}/others"')

    def empty(self):
        self.run(f'rm -rf "{self.mount}/others"')

    def check(self, size):
        return self.run(f'"{self.play.binary}" check --set upstream.url=http://127.0.0.1:1 --set store.directory="{self.play.store}" '
                        f"--set store.size={size}")

    def bytes(self):
        return int(self.run(f'cat "{self.play.store}"/segment-* "{self.play.store}"/reserve | wc -c').split()[-1])


def store_many(play, numbers):
    """Asks for new targets, and returns how many the responses said were stored."""
    return sum("stored" in str(play.get(f"/items/{number}")) for number in numbers)


def hits(play, numbers):
    return sum("cistern; hit" in str(play.get(f"/items/{number}")) for number in numbers)


def refused(name, tells, cause, words, text):
    """A scene in which the disk refuses writes: its alert, and what each output says meanwhile."""
    return scene(name, tells, fires=["CisternStoreNotWritable"], may=("CisternStoreWriteErrors",), outputs={
        "response": (r"^status 200$", r"^Cache-Status: cistern; fwd=uri-miss.*detail=store_refused", Not(r"; stored")),
        "gauge": (r"^cistern_store_writable 0$", rf'^cistern_store_write_errors_total\{{cause="{cause}"\}} [1-9]',
                  r'^cistern_not_stored_total\{reason="store_refused"\} [1-9]'),
        "alert": r"^CisternStoreNotWritable: .*`store\.directory`",
        "page": rf"refuses new responses: {words} \({text}\)",
        "status": rf"The store is not writable: {words} \({text}\), so new responses are not stored",
        "why": (rf"Not stored: the store cannot write to its directory: {words} \({text}\)", r"store\.directory"),
        "log": rf"cannot write to the cache directory \S+: {words} \(\S+: {text}\); new responses are forwarded and not stored",
    })


def recover(play, end):
    """The disk takes writes again, and new responses are stored without a restart."""
    end()
    play.recover()
    play.wait_until("the store can be written to again", lambda: "cistern_store_writable 1\n" in play.metrics())
    play.expect(store_many(play, range(9_000, 9_020)) == 20, "new responses are not stored after the disk is well again")
    play.wait(1)
    play.expect(hits(play, range(9_000, 9_020)) == 20, "what is stored after the disk is well again does not come from the store")
    play.expect("is writable again" in play.log(), "the log does not tell of the recovery")
    play.wait(400)


@scene("small-disk", "The disk has 16 MiB, and store.size is 1 GiB.", outputs={
    "response": r"^Cache-Status: cistern; (hit|fwd=uri-miss.*stored)",
    "gauge": (r"^cistern_store_writable 1$", r"^cistern_store_room_bytes 1\d{7}$", r'^cistern_store_write_errors_total\{cause="no_space"\} 0$'),
    "alert": Not("Cistern"), "page": (r"Disk\s+writable", r"the disk has space for 1\d(\.\d)? MiB"), "status": Not("cannot be written"),
    "why": r"The response was stored\.", "log": r"store\.size: 1024 MiB exceeds the space on the disk of"})
def small_disk(play):
    disk = Disk(play, "size=16m")
    play.make_upstream(item)
    play.start("store.size=1GiB", "cache.compress=off", prefix=disk.prefix)
    count = 4_000
    play.expect(store_many(play, range(count)) == count, "not all responses were stored")
    play.wait(5)
    play.expect(hits(play, range(count - 1_000, count)) == 1_000, "the last thousand responses do not come from the store")
    play.expect(9 << 20 < disk.bytes() <= 16 << 20, f"the store has {disk.bytes()} bytes")
    too_much, enough = disk.check("1GiB"), disk.check("8MiB")
    play.expect("exceeds the space on the disk of" in too_much, f"check says: {too_much}")
    play.expect("exceeds the space on the disk of" not in enough, f"check says: {enough}")
    play.get("/items/last")
    play.look("/items/last")


@scene("disk-filled-by-others", "Others fill the disk while the store is in use.", outputs={
    "response": r"^Cache-Status: cistern; (hit|fwd=uri-miss.*stored)",
    "gauge": (r"^cistern_store_writable 1$", r'^cistern_store_removals_total\{cause="evicted"\} [1-9]'),
    "alert": Not("Cistern"), "page": r"Disk\s+writable", "status": Not("cannot be written"),
    "log": r"the disk of the cache directory \S+ has space for only \d+(\.\d)? MiB"})
def filled_by_others(play):
    disk = Disk(play, "size=48m")
    play.make_upstream(item)
    play.start("store.size=32MiB", "cache.compress=off", prefix=disk.prefix)
    store_many(play, range(1_500))
    before = disk.bytes()
    disk.fill()
    play.expect(store_many(play, range(2_000, 5_000)) == 3_000, "not all responses were stored on the full disk")
    play.wait(5)
    play.expect(hits(play, range(4_500, 5_000)) == 500, "the last responses do not come from the store")
    play.expect(disk.bytes() <= before, "the store takes more of a full disk")
    play.get("/items/last")
    play.look("/items/last")
    disk.empty()
    store_many(play, range(5_000, 9_000))
    play.expect(disk.bytes() > before * 3 // 2, f"the store does not grow again: it has {disk.bytes()} bytes, and had {before}")


@refused("disk-full-from-the-start", "The disk is full before the first response comes; later there is room.",
         "no_space", "its disk is full", "No space left on device")
def full_from_the_start(play):
    disk = Disk(play, "size=32m")
    play.make_upstream(item)
    play.start("store.size=16MiB", prefix=disk.prefix)
    disk.fill()
    play.trouble()
    store_many(play, range(3))
    play.wait(120)
    said = disk.check("16MiB")
    play.expect("(No space left on device)" in said or "exceeds the space" in said, f"check says: {said}")
    play.get("/items/refused")
    play.look("/items/refused-too")
    recover(play, disk.empty)


@refused("no-inodes", "The file system has no inodes left.", "no_inodes", "its file system has no inodes left", "No space left on device")
def no_inodes(play):
    disk = Disk(play, "size=64m,nr_inodes=64")
    play.make_upstream(item)
    play.start("store.size=16MiB", prefix=disk.prefix)
    disk.run(f'mkdir "{disk.mount}/others"; i=0; while : > "{disk.mount}/others/$i"; do i=$((i + 1)); done')
    play.trouble()
    store_many(play, range(3))
    play.wait(120)
    play.look("/items/refused")
    recover(play, disk.empty)


def failing(play, number):
    """The disk fails with an error that no program of the scene can bring about itself."""
    disk = DiskFault(play)
    play.make_upstream(item)
    play.start("store.size=16MiB", environment=disk.environment)
    store_many(play, range(50))
    play.wait(5)
    disk.begin(number)
    play.trouble()
    play.get("/items/first")
    play.wait(10)
    play.expect("cistern; hit" in str(play.get("/items/first")), "the response of the first failing write is not in memory")
    play.expect(hits(play, range(50)) == 50, "what was stored before does not come from the store")
    play.expect("purged" in play.tool("purge", "/items/1"), "a purge is refused")
    play.expect("cistern; hit" not in str(play.get("/items/1")), "what was purged comes from the store")
    play.wait(100)
    play.look("/items/refused")
    recover(play, disk.end)
    play.expect("cistern; hit" in str(play.get("/items/first")), "the response of the first failing write is lost")


@refused("read-only", "The file system becomes read-only.", "read_only", "its file system is read-only", "Read-only file system")
def read_only(play):
    """A mount with files that are open for writing cannot be remounted read-only; a kernel does it after errors, and writes fail like this."""
    failing(play, errno.EROFS)


@refused("io-error", "The disk reports input/output errors.", "io_error", "its disk reports input/output errors", "Input/output error")
def io_error(play):
    failing(play, errno.EIO)


@refused("quota", "The user's quota of the disk is used up.", "quota", "the disk quota of this user is used up", "Disk quota exceeded")
def quota(play):
    failing(play, errno.EDQUOT)

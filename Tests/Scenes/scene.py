"""What a scene is: a function that plays it, the alerts that fire in it, and what each output of Cistern says at its `look`."""
import json
import os
import re
import time
import traceback
from dataclasses import dataclass, field

from play import Play, Skipped

HERE = os.path.dirname(os.path.abspath(__file__))
OUTPUTS = os.path.join(HERE, "outputs.json")
# In the order of the data file: the response of a client first, then what an operator looks at.
KINDS = ("response", "gauge", "alert", "page", "status", "upstream", "stats", "why", "log")
# Alerts that are right where others use the processor, and so say nothing of a scene.
ABOUT_THE_MACHINE = ("CisternLoopStalls",)
# What of an output is written where a scene expects nothing in particular of it: its first sentence.
DEFAULTS = {
    "response": r"^status \d+(\n(Cache|Proxy)-Status: .*)*", "alert": r"^Cistern\w+(.*\n?)*", "page": r"(?<=^State\n).+", "status": r"\A.+",
    "upstream": r"^\S+://\S+: .+", "stats": r"^upstream .+",
}
# All scenes, in the order in which they were written.
SCENES = []


@dataclass(frozen=True)
class Not:
    """A pattern that must not be found."""
    pattern: str


@dataclass
class Scene:
    name: str
    tells: str
    play: object
    # The seconds from `trouble` on within which each alert fires; all others must not. None: at some time.
    fires: dict
    # Alerts that fire or do not, such as one that ends while the scene goes on.
    may: tuple
    # By the kind of output a pattern, `Not`, or several.
    outputs: dict
    # Of the quick variant.
    isQuick: bool = False
    # Real seconds after which it is given up, at the usual speed.
    limit: float = 180


@dataclass
class Result:
    name: str
    skipped: str = ""
    wrong: list = field(default_factory=list)
    # By alert, the seconds from `trouble`, or from the start, on.
    fired: dict = field(default_factory=dict)
    unexpected: list = field(default_factory=list)
    missing: list = field(default_factory=list)
    outputs: dict = field(default_factory=dict)
    seconds: float = 0


def scene(name, tells, fires=None, may=(), outputs=None, **more):
    """Makes a scene of a function that takes a `Play`.
    - fires: what `Scene.fires` says, or names only. Without it no alert may fire."""
    if not isinstance(fires, dict):
        fires = dict.fromkeys(fires or ())
    unknown = set(outputs or {}) - set(KINDS)
    assert not unknown, f"{name}: no outputs are called {unknown}"

    def add(function):
        SCENES.append(Scene(name, tells, function, fires, tuple(may), outputs or {}, **more))
        return function
    return add


def perform(each, run, instance):
    """Plays a scene and says what was wrong.
    - instance: its name in Prometheus."""
    result = Result(each.name)
    began = time.monotonic()
    play = Play(run, instance)
    try:
        each.play(play)
        play.finish()
        judge(each, play, result)
    except Skipped as reason:
        result.skipped = str(reason)
    except Exception as error:  # pylint: disable=broad-except  (whatever it is, the other scenes go on)
        at = "".join(traceback.format_tb(error.__traceback__)[-1:]).strip()
        result.wrong.append(f"{type(error).__name__}: {error} ({at})")
    finally:
        play.close_processes()
    result.wrong += play.wrong
    result.seconds = time.monotonic() - began
    if is_wrong(result):
        keep_evidence(each, play, result)
    play.remove()
    return result


def keep_evidence(each, play, result):
    """Writes what was seen where it can be read after the run."""
    with open(os.path.join(play.run.directory, f"{each.name}.txt"), "w", encoding="utf-8") as file:
        for kind, text in (play.outputs or {}).items():
            file.write(f"===== {kind}\n{text}\n")
        if not play.outputs and os.path.exists(play.log_path):
            file.write(f"===== log\n{play.log()}\n")
        file.write("===== wrong\n" + "\n".join(result.wrong + result.missing + result.unexpected) + "\n")


def judge(each, play, result):
    judge_alerts(each, play, result)
    if play.outputs:
        for kind, expected in {**DEFAULTS, **each.outputs}.items():
            result.outputs[kind] = judge_output(kind, expected, play.outputs[kind], result.wrong)
    elif each.outputs:
        result.wrong.append("the scene has outputs and does not look")


def judge_alerts(each, play, result):
    start = play.troubled or play.began
    firings = play.run.prometheus.firings(play.instance, play.began, play.ended)
    slack = play.run.slack
    for name, spans in firings.items():
        result.fired[name] = round((spans[0][0] - start) * play.speed)
        if name not in (*each.fires, *each.may, *ABOUT_THE_MACHINE):
            result.unexpected.append(f"{name} fires {result.fired[name]} s after the start, and should not")
    for name, within in each.fires.items():
        spans = firings.get(name)
        if not spans:
            result.missing.append(f"{name} does not fire")
            continue
        if spans[0][0] < start - 0.1:
            result.unexpected.append(f"{name} fires before the trouble begins")
        if within is not None and spans[0][0] - start > play.real(within) + slack:
            result.missing.append(f"{name} fires after {result.fired[name]} s, later than {within} s")
        if play.recovered:
            if play.ended - spans[-1][1] < play.real(25):
                result.wrong.append(f"{name} still fires {round((play.ended - play.recovered) * play.speed)} s after the trouble is over")
        elif name not in each.may and (len(spans) > 1 or play.ended - spans[-1][1] > play.real(35)):
            result.wrong.append(f"{name} stops firing while the trouble goes on")


def judge_output(kind, expected, text, wrong):
    """Compares one output with its patterns, and returns the lines in which they were found."""
    patterns = expected if isinstance(expected, (tuple, list)) else (expected,)
    lines = text.split("\n")
    found = set()
    for pattern in patterns:
        if isinstance(pattern, Not):
            match = re.search(pattern.pattern, text, re.MULTILINE)
            if match:
                wrong.append(f"{kind} says {match[0]!r}")
            continue
        match = re.search(pattern, text, re.MULTILINE)
        if not match:
            wrong.append(f"{kind} does not say /{pattern}/")
            continue
        first = text.count("\n", 0, match.start())
        found.update(range(first, first + match[0].rstrip("\n").count("\n") + 1))
    return [normalised(lines[number], kind) for number in sorted(found)]


def normalised(line, kind):
    """The line without what differs from run to run."""
    line = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?( UTC)?", "TIME", line)
    line = re.sub(r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "TIME", line)
    line = re.sub(r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT", line)
    line = re.sub(r"/\S*cistern-scene-\w+", "DIRECTORY", line)
    line = re.sub(r"\b(age|ttl|Age|Retry-After)(=|: )-?\d+", r"\1\2N", line, flags=re.IGNORECASE)
    if kind == "gauge":
        return re.sub(r"(_total\S*|_seconds\S*) -?[1-9][\d.]*$", r"\1 N", line)
    line = re.sub(r"\[\d+-\d+\]|\b\d+-\d+\b", "ID", line)
    line = re.sub(r"(≤ )?\b\d+(\.\d+)? ?(ms|µs|s|min|m|h|d|seconds?|minutes?|hours?|days?)\b( \d+ ?(s|min|m|h)\b)*", "DURATION", line)
    line = re.sub(r"\b\d+(\.\d+)? ?%", "N %", line)
    line = re.sub(r"\b\d+(\.\d+)? ?([KMG]i?B|bytes)\b", "SIZE", line)
    # Counts: what stands alone, and is no status.
    before = r"(?<![\w/.:\-])(?<!status )(?<!status=)(?<!HTTP )(?<!HTTP/1\.1 )"
    return re.sub(before + r"\d+(\.\d+)?(?= [a-z])(?! background fetch for)", "N", line)


def is_wrong(result):
    return bool(result.wrong or result.missing or result.unexpected)


def read_outputs():
    """The rows of the data file, by scene."""
    if not os.path.exists(OUTPUTS):
        return {}
    with open(OUTPUTS, encoding="utf-8") as file:
        return {each["scene"]: each for each in json.load(file)}


def row(each, result):
    """The row of a scene that was played and was right."""
    return {"scene": each.name, "tells": each.tells, "alerts": sorted(each.fires),
            "outputs": {kind: result.outputs[kind] for kind in KINDS if result.outputs.get(kind)}}


def write_outputs(scenes, results):
    """Writes what each output says in each scene that was played and was right; the others keep their rows."""
    rows = read_outputs()
    for each in scenes:
        result = results.get(each.name)
        if result and result.outputs and not is_wrong(result):
            rows[each.name] = row(each, result)
    kept = [rows[each.name] for each in scenes if each.name in rows and each.outputs]
    with open(OUTPUTS, "w", encoding="utf-8") as file:
        file.write(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def outdated(scenes, results):
    """Scenes that were right and whose rows in the data file say something else."""
    rows = read_outputs()
    return [each.name for each in scenes if (result := results.get(each.name)) and result.outputs and not is_wrong(result)
            and rows.get(each.name) != row(each, result)]

#!/usr/bin/env python3
"""Gives the parser's corpus to h11 and httptools: what both, or either of them for its framing, refuses, we must not take.

The verdicts in RequestCorpus.swift are ours (the Swift tests prove it). A row that we take and one of them refuses is printed;
for a row about framing (lengths, codings) that ends the comparison with 1.
"""
import re
import sys
from pathlib import Path

import h11
import httptools


def rows():
    text = (Path(__file__).parent.parent / "HTTPCoreTests" / "RequestCorpus.swift").read_text()
    text = text[text.index("// corpus"):text.index("// end of corpus")]
    group = ""
    for line in text.splitlines():
        named = re.search(r"static let (\w+)", line)
        if named:
            group = named[1]
        found = re.search(r'row\((\d+), "(.*)"\)', line)
        if found:
            body = re.sub(r"\\u\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), found[2])
            body = body.replace('\\"', '"').replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
            yield group, int(found[1]), body.encode()


def takes_h11(data):
    connection = h11.Connection(h11.SERVER)
    try:
        connection.receive_data(data)
        return isinstance(connection.next_event(), h11.Request)
    except h11.RemoteProtocolError:
        return False


class Handler:
    complete = False

    def on_headers_complete(self):
        self.complete = True


def takes_httptools(data):
    handler = Handler()
    try:
        httptools.HttpRequestParser(handler).feed_data(data)
    except httptools.HttpParserError:
        return handler.complete
    return handler.complete


def main():
    count = stricter = violations = 0
    for group, expected, data in rows():
        count += 1
        ours, theirs = expected == 200, (takes_h11(data), takes_httptools(data))
        if not ours and any(theirs):
            stricter += 1
        if ours and not all(theirs):
            is_framing = group in ("lengths", "codings")
            violations += is_framing
            print(f"{'VIOLATION' if is_framing else 'we take'}: h11 {theirs[0]}, httptools {theirs[1]}: {data!r}")
    print(f"{count} requests: {stricter} that we refuse and one of them takes, {violations} framed in doubt that we take")
    return 1 if violations or not count else 0


if __name__ == "__main__":
    sys.exit(main())

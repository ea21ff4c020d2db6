# What the trials of the image and of the package have in common: an upstream to stand before, and how a result is told.

import http.server


class Upstream(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        content = b'{"users":[]}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def holds(condition, sentence, more=""):
    print(("ok    " if condition else "FAIL  ") + sentence, flush=True)
    if not condition:
        raise SystemExit(more or 1)

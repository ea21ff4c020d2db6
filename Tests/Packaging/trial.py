# Common parts of the packaging tests: an upstream, and the output of a result.

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

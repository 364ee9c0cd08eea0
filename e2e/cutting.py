"""A web server for tests of downloads: it hangs up half way through the first answer, and knows ranges.

Its whole text is given to an interpreter, with a port and a sentence to repeat; it answers from then on, by itself.
"""

import http.server
import os
import re
import sys

PORT, WORD, TIMES = int(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
DATA = WORD * TIMES
ASKED: list[int] = []


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with `DATA`, or what of it is asked for."""

    def do_GET(self) -> None:
        """Send half of it at first, all that is asked for later."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        begin = int(found[1]) if found else 0
        ASKED.append(begin)
        self.send_response(206 if begin else 200)
        self.send_header("Content-Range", f"bytes {begin}-{len(DATA) - 1}/{len(DATA)}")
        self.send_header("Content-Length", str(len(DATA) - begin))
        self.end_headers()
        self.wfile.write(DATA[begin : len(DATA) // 2] if len(ASKED) == 1 else DATA[begin:])

    def log_message(self, *_words: object) -> None:  # type: ignore[explicit-override]  # it runs by itself, without types
        """Say nothing."""


server = http.server.HTTPServer(("0.0.0.0", PORT), Handler)  # noqa: S104 - in a namespace of its own
if os.fork() == 0:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    server.serve_forever()

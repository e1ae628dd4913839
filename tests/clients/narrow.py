"""Upstreams that speak one dialect each: a filter before aimock that answers 404 to all other paths.

Each offers one model, named after the dialect, and remembers the last request it let through.
"""

import contextlib
import json
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
# The name of the matrix's model in aimock's fixtures.
MODEL = "matrix"
LAST = {}
# Every request that was let through, with its dialect.
ASKED = []
# The fault of a dialect's next answer, right after its first words: "fails" or "breaks".
FAULTS = {}
FIRST_WORDS = "Grüße".encode()
FAILURES = {
    "chat": b'data: {"error":{"message":"The model fell ill","type":"server_error","code":"server_error"}}\n\n',
    "responses": b'event: response.failed\ndata: {"type":"response.failed","sequence_number":99,"response":{"id":"resp_ill",'
    b'"object":"response","status":"failed","output":[],'
    b'"error":{"code":"server_error","message":"The model fell ill"}}}\n\n',
    "messages": b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"The model fell ill"}}\n\n',
}


# The silence of a silent upstream, in seconds: before its answer, and again after the first words of it. Longer than the
# gateway of these tests waits before it sends a client a heartbeat.
SILENCE = 2.5


def model_of(dialect, silent=False):
    return f"silent-{dialect}" if silent else f"only-{dialect}"


@contextlib.contextmanager
def upstream(aimock, dialect, silent=False):
    """Starts an upstream of one dialect; yields its address."""
    model = model_of(dialect, silent)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            if self.path.partition("?")[0] != "/v1/models":
                return self.answer(404, b'{"error":{"message":"Not found"}}')
            self.answer(200, json.dumps({"object": "list", "data": [{"id": model, "object": "model"}]}).encode())

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path.partition("?")[0] != PATHS[dialect]:
                return self.answer(404, b'{"error":{"message":"Not found"}}')
            asked = json.loads(body)
            LAST[dialect] = asked
            ASKED.append((dialect, asked))
            body = json.dumps({**asked, "model": MODEL}).encode()
            passed = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length")}
            request = urllib.request.Request(aimock + self.path, data=body, headers=passed)
            if silent:
                time.sleep(SILENCE)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    self.relay(answer)
            except urllib.error.HTTPError as error:
                self.answer(error.code, error.read())

        def relay(self, answer):
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers["content-type"])
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            fault = FAULTS.pop(dialect, None)
            for line in answer:
                # The answer names the requested model: Claude Code drops the thinking of another model.
                self.piece(line.replace(b'"model":"%s"' % MODEL.encode(), b'"model":"%s"' % model.encode()))
                if silent and FIRST_WORDS in line:
                    # The blank line completes the event before the silence.
                    self.piece(b"\n")
                    time.sleep(SILENCE)
                if fault and FIRST_WORDS in line:
                    self.piece(b"\n")
                    if fault == "breaks":
                        # The connection ends without the last chunk.
                        self.close_connection = True
                        return
                    self.piece(FAILURES[dialect])
                    break
            self.wfile.write(b"0\r\n\r\n")

        def piece(self, data):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()

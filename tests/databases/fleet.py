"""Shared by the long runs on a database: instances, a stub of a site, and queries of the database."""
import collections
import http.client
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

ADMIN, PROXY = "admin-token-of-the-fleet", "sk-proxy-of-the-fleet-4d1c"
lock = threading.Lock()


class Database:
    """An empty database: postgres://USER@HOST:PORT/NAME or mysql://USER@HOST:PORT/NAME."""

    def __init__(self, url):
        self.url, self.kind = url, url.split(":")[0]

    def ask(self, sql):
        """Returns the result of a query: a list of rows, each a list of texts."""
        if self.kind == "postgres":
            command = ["psql", "-qAt", "-F", "\t", self.url, "-c", sql]
        else:
            place = urllib.parse.urlsplit(self.url)
            command = ["mariadb", "--no-defaults", "--protocol=tcp", "-h", place.hostname, "-P", str(place.port), "-u",
                       place.username, "-N", "-B", "-e", sql, place.path[1:]]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return [row.split("\t") for row in done.stdout.splitlines()]

    def number(self, sql):
        return int(float(self.ask(sql)[0][0]))

    def texts(self, sql):
        return [row[0] for row in self.ask(sql)]


class Stub(http.server.ThreadingHTTPServer):
    """A site that counts the requests of each `user`."""
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, name, models):
        self.label, self.models, self.asked = name, models, collections.Counter()
        super().__init__(("127.0.0.1", 0), Answers)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        pass  # A killed instance resets its connections.


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": m, "object": "model"} for m in self.server.models]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        with lock:
            self.server.asked[body.get("user", self.path)] += 1
        message = {"role": "assistant", "content": self.server.label}
        self.answer({"id": "c", "object": "chat.completion", "created": 1, "model": body.get("model"),
                     "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                     "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}})

    def answer(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Instance:
    def __init__(self, binary, database, number, home):
        self.binary, self.database = os.path.abspath(binary), database
        self.number, self.home, self.starts = number, os.path.join(home, f"instance-{number}"), 0
        os.makedirs(self.home)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process, self.ready_since = None, None

    def start(self):
        env = {"PATH": os.environ["PATH"], "DATA_DIR": self.home, "HOST": "127.0.0.1", "PORT": str(self.port),
               "AUTH_TOKEN": ADMIN, "PROXY_TOKEN": PROXY, "ACCOUNT_CREDENTIAL_SECRET": "secret-of-the-fleet-77",
               "DB_TYPE": self.database.kind, "DB_URL": self.database.url, "TZ": "UTC",
               "LOG_LEVEL": os.environ.get("LOG_LEVEL", "info"),
               "REQUEST_RATE_LIMIT_MAX": "10000000", "AUTHENTICATED_RATE_LIMIT_MAX": "10000000"}
        log = open(os.path.join(self.home, "log"), "ab")
        self.process = subprocess.Popen([self.binary], env=env, stdout=log, stderr=log, cwd=self.home)
        self.starts += 1
        for _ in range(600):
            if self.call("GET", "/api/desktop/health")[0] == 200:
                self.ready_since = time.monotonic()
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit(f"instance {self.number} does not start, see {self.home}/log")

    def kill(self):
        self.ready_since = None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def call(self, method, path, body=None, token=ADMIN):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None
        finally:
            connection.close()

    def admin(self, method, path, body=None):
        status, answer = self.call(method, path, body)
        if status != 200:
            sys.exit(f"{method} {path}: {status} {answer}")
        return answer


def chat(instance, token, model, user):
    body = {"model": model, "user": user, "messages": [{"role": "user", "content": "x"}]}
    return instance.call("POST", "/v1/chat/completions", body, token)


def add_sites(instance, database, stubs):
    """Adds a site with an account for each stub; returns the ids of their channels, by name."""
    for stub in stubs:
        made = instance.admin("POST", "/api/sites", {"name": stub.label, "url": stub.url(), "platform": "openai"})
        instance.admin("POST", "/api/accounts", {"siteId": made["id"], "credentialMode": "apikey", "accessToken": "sk-up"})
    for _ in range(200):
        channels = dict(database.ask("SELECT s.name, c.id FROM route_channels c JOIN accounts a ON a.id = c.account_id "
                                     "JOIN sites s ON s.id = a.site_id"))
        if len(channels) == len(stubs):
            return channels
        time.sleep(0.1)
    sys.exit(f"there are channels of {list(channels)} only")

"""Sets the stage for schemathesis and runs it: a stub site, the gateway with an account there, the description of its API.

usage: stage.py <switchyard binary> <schemathesis> [its options]
"""

import contextlib
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent
DOCUMENT = HERE.parent.parent / "docs" / "openapi.json"
TOKEN = "admin-token-of-the-api-tests"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# Left out: the routes for clients, which pass on answers of sites; the route that changes the admin token of these requests;
# the factory reset, which would delete the site and the account; and streams, which do not end.
LEFT_OUT = r"^/(?!api/|metrics$)|/auth/change$|/factory-reset$|/stats/live$|-stream$|/stream$"
SECONDS = os.environ.get("API_SECONDS", "180")
SOON = 30.0


def main():
    binary, schemathesis, *options = sys.argv[1:]
    with stub_site() as site, gateway(binary) as address, tempfile.TemporaryDirectory(prefix="schemathesis-") as folder:
        added = ask(address, "POST", "/api/sites", {"name": "stub", "url": site, "platform": "openai"})
        ask(address, "POST", "/api/accounts", {"siteId": added["id"], "accessToken": "sk-stub", "credentialMode": "apikey"})
        command = [schemathesis, "--config-file", str(HERE / "schemathesis.toml"), "run", str(DOCUMENT), "--url", address,
            "--header", f"Authorization: Bearer {TOKEN}", "--checks", CHECKS, "--exclude-path-regex", LEFT_OUT,
            "--max-time", SECONDS, "--request-timeout", "30", "--no-shrink", "--seed", "1", *options]
        # schemathesis keeps a cache in its working directory.
        result = subprocess.run(command, cwd=folder, check=False).returncode
    sys.exit(result)


@contextlib.contextmanager
def stub_site():
    """A site that lists two models and refuses everything else."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.path.startswith("/v1/models")
            body = json.dumps({"data": [{"id": "m-one"}, {"id": "m-two"}]} if known else {"error": {"message": "no"}}).encode()
            self.send_response(200 if known else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@contextlib.contextmanager
def gateway(binary):
    """Starts the gateway with a directory of its own; yields its address. Fails if it does not end in order."""
    with tempfile.TemporaryDirectory(prefix="switchyard-api-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        environment = {"PATH": os.environ.get("PATH", ""), "HOST": "127.0.0.1", "PORT": str(port), "DATA_DIR": folder,
            "AUTH_TOKEN": TOKEN, "PROXY_TOKEN": "sk-proxy-token-of-the-api-tests", "ACCOUNT_CREDENTIAL_SECRET": "a-secret-of-the-api-tests",
            "REQUEST_RATE_LIMIT_MAX": "10000000", "AUTHENTICATED_RATE_LIMIT_MAX": "10000000"}
        log = open(pathlib.Path(folder) / "log", "w+")
        process = subprocess.Popen([binary, "serve"], env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        address = f"http://127.0.0.1:{port}"
        try:
            await_health(address, process)
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(SOON)
            log.seek(0)
            told = [line for line in log if "ERROR" in line or "panic" in line]
            sys.stdout.writelines(told[:40])
        if process.returncode != 0:
            raise SystemExit(f"the gateway ended with {process.returncode}")


def await_health(address, process):
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(f"{address}/api/desktop/health", timeout=1)
            return
        time.sleep(0.05)
    raise SystemExit("the gateway does not answer")


def ask(address, method, path, body):
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    request = urllib.request.Request(address + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=SOON) as answer:
        return json.load(answer)


main()

"""Sets the stage for the client tests and runs them: upstream, gateway, one site, one account.

usage: stage.py <switchyard binary> <aimock's cli.js> [names of tests]
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import narrow

HERE = pathlib.Path(__file__).parent
ADMIN_TOKEN = "admin-token-of-the-client-tests"
PROXY_TOKEN = "sk-proxy-token-of-the-client-tests"
MODELS = {"embedder", "filmmaker", "matrix", "painter", "refuses", "talker"}
# The models of the upstreams that speak one dialect each.
NARROW = {narrow.model_of(dialect, silent) for dialect in narrow.PATHS for silent in (False, True)}
# A break cools its channel, so each of these models can be requested only once.
BREAKING = {"breaks-chat", "breaks-messages", "breaks-responses"}
SOON = 30.0


def main():
    binary, aimock, *names = sys.argv[1:]
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(upstream_process(aimock))
        address = stack.enter_context(gateway_process(binary))
        add_account(address, "aimock", "openai", upstream)
        for dialect in narrow.PATHS:
            # A new-api site may speak any dialect: the gateway has to find out which one.
            for silent in (False, True):
                speaker = stack.enter_context(narrow.upstream(upstream, dialect, silent))
                add_account(address, narrow.model_of(dialect, silent), "new-api", speaker)
        await_models(address, MODELS | BREAKING | NARROW)
        os.environ["CLIENT_TESTS_GATEWAY"] = address
        loader = unittest.defaultTestLoader
        if names:
            sys.path.insert(0, str(HERE))
            suite = loader.loadTestsFromNames(names)
        else:
            suite = loader.discover(str(HERE), "test_*.py")
        result = unittest.TextTestRunner(verbosity=2).run(suite)
        # A run without any test is a failure.
        passed = result.wasSuccessful() and result.testsRun > 0
    sys.exit(0 if passed else 1)


@contextlib.contextmanager
def upstream_process(aimock, fixtures=HERE / "fixtures.json"):
    """Starts aimock on a port of its own choice; yields its address."""
    command = ["node", aimock, "--port", "0", "--fixtures", str(fixtures), "--validate-on-load", "--strict"]
    with running(command, os.environ) as (process, said):
        yield wait_for("aimock listens", process, said, lambda: re.search(r"http://127\.0\.0\.1:\d+", "".join(said)))[0]


@contextlib.contextmanager
def gateway_process(binary):
    """Starts the gateway with a directory of its own; yields its address. Fails if it does not end in order."""
    with tempfile.TemporaryDirectory(prefix="switchyard-clients-") as folder:
        port = free_port()
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOST": "127.0.0.1",
            "PORT": str(port),
            "DATA_DIR": folder,
            "AUTH_TOKEN": ADMIN_TOKEN,
            "PROXY_TOKEN": PROXY_TOKEN,
            "ACCOUNT_CREDENTIAL_SECRET": "credential-secret-of-the-client-tests",
            # Shorter than the silence of the silent upstreams.
            "STREAM_FIRST_HEARTBEAT_SEC": "1",
            "STREAM_HEARTBEAT_SEC": "1",
        }
        address = f"http://127.0.0.1:{port}"
        with running([binary, "serve"], environment, folder) as (process, said):
            wait_for("the gateway answers", process, said, lambda: is_healthy(address))
            yield address
        if process.returncode != 0:
            raise SystemExit(f"the gateway ended with {process.returncode}:\n{''.join(said)}")


@contextlib.contextmanager
def running(command, environment, folder=None):
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
    reader.start()
    try:
        yield process, said
    finally:
        process.terminate()
        try:
            process.wait(SOON)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(SOON)


def wait_for(what, process, said, look):
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline and process.poll() is None:
        if found := look():
            return found
        time.sleep(0.02)
    raise SystemExit(f"{what}: not within {SOON:.0f} s\n{''.join(said)}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_healthy(address):
    try:
        return ask(address, "GET", "/api/desktop/health") is not None
    except (OSError, ValueError):
        return False


def ask(address, method, path, body=None, token=ADMIN_TOKEN):
    """Calls the admin API (or the proxy, with its token); returns the JSON of the answer."""
    request = urllib.request.Request(
        address + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        error.msg = f"{method} {path}: {error.read().decode(errors='replace')}"
        raise


def add_account(address, name, platform, upstream):
    """Adds a site and an account on it, as an operator does."""
    site = ask(address, "POST", "/api/sites", {"name": name, "url": upstream, "platform": platform})
    account = {"siteId": site["id"], "accessToken": "sk-aimock", "credentialMode": "apikey"}
    ask(address, "POST", "/api/accounts", account)


def end_cooldowns(address):
    """Ends all cooldowns, as an operator would: a fault cools its channel, and the tests go on."""
    for route in ask(address, "GET", "/api/routes"):
        ask(address, "POST", f"/api/routes/{route['id']}/cooldown/clear", {})


def await_models(address, wanted):
    deadline = time.monotonic() + SOON
    models = set()
    while models != wanted:
        if time.monotonic() > deadline:
            raise SystemExit(f"only these models appeared: {sorted(models)}")
        time.sleep(0.02)
        listed = ask(address, "GET", "/v1/models", token=PROXY_TOKEN)
        models = {model["id"] for model in listed["data"]}


if __name__ == "__main__":
    main()

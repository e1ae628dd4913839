"""The command-line clients as they ship, before upstreams that speak one dialect each: Codex over HTTP and
over a WebSocket, and Claude Code. Large downloads: run by `make test-clis` only."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import narrow
from stage import PROXY_TOKEN

GATEWAY = os.environ["CLIENT_TESTS_GATEWAY"]
# Where npm has put their commands.
COMMANDS = os.environ.get("CLIENT_TESTS_CLIS")
GREETING = "Grüße aus Köln 😀, one word after the other, until the sentence is complete."
# A command-line client takes its time to start, and tries again.
SOON = 120.0


class Codex:
    name = "codex"
    over_socket = False
    # It knows the code of the refusal, and says so in words of its own; messages upstreams have no codes.
    refusal = ("ran out of room in the model's context window", "maximum context length is 10 tokens")

    def ask(self, model, prompt):
        """What it says in the end, and whether all went well."""
        with tempfile.TemporaryDirectory(prefix="switchyard-clis-") as home:
            pathlib.Path(home, "config.toml").write_text(self.settings(model))
            environment = {"CODEX_HOME": home, "SWITCHYARD_KEY": PROXY_TOKEN}
            # The directory is its own, and nothing in it is worth a sandbox.
            options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
            done = run(["codex", "exec", *options, prompt], home, environment)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        said = [item["text"] for item in items if item["type"] == "agent_message"]
        failed = [json.dumps(event) for event in events if event["type"] in ("error", "turn.failed")]
        return "\n".join(said + failed), done.returncode == 0 and not failed

    def settings(self, model):
        return f"""
            model = "{model}"
            model_provider = "switchyard"
            [model_providers.switchyard]
            name = "switchyard"
            base_url = "{GATEWAY}/v1"
            wire_api = "responses"
            env_key = "SWITCHYARD_KEY"
            request_max_retries = 0
            stream_max_retries = 0
            supports_websockets = {"true" if self.over_socket else "false"}
        """


class CodexOverSocket(Codex):
    over_socket = True


class ClaudeCode:
    name = "claude"
    refusal = ("maximum context length is 10 tokens",)

    def ask(self, model, prompt):
        with tempfile.TemporaryDirectory(prefix="switchyard-clis-") as home:
            environment = {
                "ANTHROPIC_BASE_URL": GATEWAY,
                "ANTHROPIC_AUTH_TOKEN": PROXY_TOKEN,
                "ANTHROPIC_MODEL": model,
                "ANTHROPIC_SMALL_FAST_MODEL": model,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "CLAUDE_CODE_MAX_RETRIES": "0",
                "DISABLE_TELEMETRY": "1",
            }
            options = ["--output-format", "json", "--allowedTools", "Bash"]
            done = run(["claude", "-p", prompt, *options], home, environment)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise AssertionError(f"{done.returncode}: {done.stdout} {done.stderr}") from None
        return answer["result"], done.returncode == 0 and not answer["is_error"]


def run(command, home, environment):
    environment = {"PATH": os.environ["PATH"], "HOME": home, **environment}
    command = [str(pathlib.Path(COMMANDS, command[0])), *command[1:]]
    return subprocess.run(
        command, cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON
    )


CLIENTS = [Codex(), CodexOverSocket(), ClaudeCode()]


def asked(dialect):
    return json.dumps(narrow.LAST[dialect], ensure_ascii=False)


@unittest.skipUnless(COMMANDS, "the command-line clients are not installed: make test-clis")
class CommandLine(unittest.TestCase):
    def on_each(self, check):
        for client in CLIENTS:
            for dialect in narrow.PATHS:
                with self.subTest(client=type(client).__name__, upstream=dialect):
                    check(client, narrow.model_of(dialect), dialect)

    def test_a_text_is_said(self):
        def check(client, model, _):
            self.assertEqual(client.ask(model, "greet"), (GREETING, True))

        self.on_each(check)

    def test_a_tool_is_called_and_its_output_goes_back(self):
        def check(client, model, dialect):
            prompt = f"run it in {client.name}"
            self.assertEqual(client.ask(model, prompt), ("The command said signals-42.", True))
            self.assertEqual(asked(dialect).count(prompt), 1, "the conversation is sent once")
            self.assertIn("signals-42", asked(dialect))

        self.on_each(check)

    def test_an_upstreams_refusal_is_shown(self):
        def check(client, model, _):
            said, went_well = client.ask(model, "refuse")
            self.assertFalse(went_well, said)
            self.assertTrue(any(words in said for words in client.refusal), said)

        self.on_each(check)


if __name__ == "__main__":
    unittest.main()

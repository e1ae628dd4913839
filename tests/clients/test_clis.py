"""Tests the released command-line clients with upstreams that speak one dialect each: Codex over HTTP and
over a WebSocket, Claude Code, and Gemini CLI. These are large downloads, so only `make test-clis` runs this."""

import base64
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import typing
import unittest

import narrow
from stage import PROXY_TOKEN, end_cooldowns

GATEWAY = os.environ["CLIENT_TESTS_GATEWAY"]
# The directory in which npm has installed their commands.
COMMANDS = os.environ.get("CLIENT_TESTS_CLIS")
GREETING = "Grüße aus Köln 😀, one word after the other, until the sentence is complete."
# Seconds: a command-line client starts slowly, and tries again.
SOON = 120.0
# The events by which Codex says that it failed.
FAILED = ("error", "turn.failed")
# The contents of files in a client's working directory.
NOTES = "violets and rye"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PAPER = "JVBERi0xLjQKMSAwIG9iajw8L1R5cGUvQ2F0YWxvZz4+ZW5kb2JqCnRyYWlsZXI8PC9Sb290IDEgMCBSPj4KJSVFT0YK"


class Said(typing.NamedTuple):
    """A client's final text, whether it succeeded, and what it showed meanwhile."""

    text: str
    went_well: bool
    thoughts: str = ""
    pieces: int = 0


class Codex:
    name = "codex"
    shows_thoughts = True
    over_socket = False
    # Codex knows the error's code and has its own text for it; messages upstreams send no code, so their text is shown.
    refusal = ("ran out of room in the model's context window", "maximum context length is 10 tokens")

    def ask(self, model, prompt, home=None, again=False, system=None, picture=False):
        """Runs one turn; with `again`, one more turn of the conversation in `home`."""
        if home is None:
            with a_home() as home:
                return self.ask(model, prompt, home, again, system, picture)
        pathlib.Path(home, "config.toml").write_text(self.settings(model, system))
        environment = {"CODEX_HOME": home, "SWITCHYARD_KEY": PROXY_TOKEN}
        # The directory is temporary, so no sandbox is needed.
        options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", prompt]
        if picture:
            options += ["-i", "pixel.png"]
        done = run(["codex", "exec", *(["resume", "--last"] if again else []), *options], home, environment)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        of = lambda kind, key: [item[key] for item in items if item["type"] == kind]
        said, failed = of("agent_message", "text"), [json.dumps(event) for event in events if event["type"] in FAILED]
        if failed:
            # These include the reason why it left the WebSocket.
            failed += of("error", "message")
        return Said("\n".join(said + failed), done.returncode == 0 and not failed, "".join(of("reasoning", "text")))

    def settings(self, model, system):
        return f"""
            model = "{model}"
            model_provider = "switchyard"
            developer_instructions = "{system or ""}"
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
    shows_thoughts = True
    refusal = ("maximum context length is 10 tokens",)

    def ask(self, model, prompt, home=None, again=False, system=None):
        if home is None:
            with a_home() as home:
                return self.ask(model, prompt, home, again, system)
        environment = {
            "ANTHROPIC_BASE_URL": GATEWAY,
            "ANTHROPIC_AUTH_TOKEN": PROXY_TOKEN,
            "ANTHROPIC_MODEL": model,
            "ANTHROPIC_SMALL_FAST_MODEL": model,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "DISABLE_TELEMETRY": "1",
        }
        options = ["--output-format", "stream-json", "--verbose", "--include-partial-messages"]
        options += ["--allowedTools", "Bash,Read"]
        if again:
            options.append("--continue")
        if system:
            options += ["--append-system-prompt", system]
        done = run(["claude", "-p", prompt, *options], home, environment)
        try:
            *events, answer = [json.loads(line) for line in done.stdout.splitlines()]
        except ValueError:
            raise AssertionError(f"{done.returncode}: {done.stdout} {done.stderr}") from None
        deltas = [event["event"].get("delta", {}) for event in events if event["type"] == "stream_event"]
        thoughts = "".join(delta["thinking"] for delta in deltas if delta.get("type") == "thinking_delta")
        pieces = sum(delta.get("type") == "text_delta" for delta in deltas)
        return Said(answer["result"], done.returncode == 0 and not answer["is_error"], thoughts, pieces)


class GeminiCli:
    name = "gemini"
    # Only on a terminal, and it sends back only those that Google has signed.
    shows_thoughts = False
    refusal = ("maximum context length is 10 tokens",)

    def ask(self, model, prompt, home=None, again=False, system=None):
        if home is None:
            with a_home() as home:
                return self.ask(model, prompt, home, again, system)
        # With a base address it takes no key unless it is told to.
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "telemetry": {"enabled": False}}
        pathlib.Path(home, ".gemini").mkdir(exist_ok=True)
        pathlib.Path(home, ".gemini", "settings.json").write_text(json.dumps(settings))
        environment = {"GOOGLE_GEMINI_BASE_URL": GATEWAY, "GEMINI_API_KEY": PROXY_TOKEN, "TERM": "dumb"}
        if system:
            pathlib.Path(home, "system.md").write_text(system)
            environment["GEMINI_SYSTEM_MD"] = str(pathlib.Path(home, "system.md"))
        options = ["--yolo", "--skip-trust", "--output-format", "json", *(["--resume", "latest"] if again else [])]
        done = run(["gemini", "-m", model, "-p", prompt, *options], home, environment)
        if done.returncode == 0:
            return Said(json.loads(done.stdout)["response"], True)
        return Said(done.stderr, False)


@contextlib.contextmanager
def a_home():
    with tempfile.TemporaryDirectory(prefix="switchyard-clis-") as home:
        pathlib.Path(home, "notes.txt").write_text(NOTES)
        pathlib.Path(home, "pixel.png").write_bytes(base64.b64decode(PIXEL))
        pathlib.Path(home, "paper.pdf").write_bytes(base64.b64decode(PAPER))
        yield home


def run(command, home, environment):
    environment = {"PATH": os.environ["PATH"], "HOME": home, **environment}
    command = [str(pathlib.Path(COMMANDS, command[0])), *command[1:]]
    return subprocess.run(
        command, cwd=home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON
    )


CLIENTS = [Codex(), CodexOverSocket(), ClaudeCode(), GeminiCli()]


def asked(dialect):
    return json.dumps(narrow.LAST[dialect], ensure_ascii=False)


def system_asked(dialect):
    """Returns the system prompt of the last request, from the place that the upstream's dialect has for it."""
    request = narrow.LAST[dialect]
    if dialect == "messages":
        return json.dumps(request["system"])
    turns = request["messages" if dialect == "chat" else "input"]
    told = [turn for turn in turns if turn.get("role") in ("system", "developer")]
    return json.dumps([told, request.get("instructions")])


def outputs_asked(dialect):
    """Returns the outputs of tools in the upstream's last request, by the ids of their calls."""
    request = narrow.LAST[dialect]
    if dialect == "chat":
        return {turn["tool_call_id"]: turn["content"] for turn in request["messages"] if turn["role"] == "tool"}
    if dialect == "responses":
        outputs = [item for item in request["input"] if item["type"] == "function_call_output"]
        return {item["call_id"]: item["output"] for item in outputs}
    blocks = [block for turn in request["messages"] for block in turn["content"] if isinstance(block, dict)]
    return {block["tool_use_id"]: json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"}


@unittest.skipUnless(COMMANDS, "the command-line clients are not installed: make test-clis")
class CommandLine(unittest.TestCase):
    def on_each(self, check, clients=CLIENTS):
        for client in clients:
            for dialect in narrow.PATHS:
                with self.subTest(client=type(client).__name__, upstream=dialect):
                    check(client, narrow.model_of(dialect), dialect)

    def assert_said(self, said, text):
        self.assertEqual((said.text, said.went_well), (text, True))

    def test_a_text_is_said(self):
        def check(client, model, _):
            self.assert_said(client.ask(model, "greet"), GREETING)

        self.on_each(check)

    def test_a_text_is_shown_as_it_comes(self):
        def check(client, model, _):
            self.assertGreater(client.ask(model, "greet").pieces, 2)

        # Codex shows only whole texts if its output is no terminal.
        self.on_each(check, [ClaudeCode()])

    def test_an_upstream_that_is_long_in_answering_is_waited_for(self):
        def check(client, _, dialect):
            self.assert_said(client.ask(narrow.model_of(dialect, silent=True), "greet"), GREETING)

        self.on_each(check)

    def test_the_system_prompt_counts(self):
        def check(client, model, dialect):
            self.assert_said(client.ask(model, "greet", system="Speak like a captain."), "Ahoy.")
            self.assertIn("Speak like a captain.", system_asked(dialect))

        self.on_each(check)

    def test_a_tool_is_called_and_its_output_goes_back(self):
        def check(client, model, dialect):
            prompt = f"run it in {client.name}"
            self.assert_said(client.ask(model, prompt), "The command said signals-42.")
            self.assertEqual(asked(dialect).count(prompt), 1, "the conversation is sent once")
            self.assertIn("signals-42", asked(dialect))

        self.on_each(check)

    def test_each_of_two_outputs_finds_its_call(self):
        def check(client, model, dialect):
            self.assert_said(client.ask(model, f"run both in {client.name}"), "Both have spoken.")
            outputs = outputs_asked(dialect)
            self.assertEqual(outputs.keys(), {"call_north", "call_south"})
            self.assertIn("north-42", outputs["call_north"])
            self.assertIn("south-56", outputs["call_south"])

        self.on_each(check)

    def test_a_file_is_read(self):
        def check(client, model, dialect):
            self.assert_said(client.ask(model, f"read the notes in {client.name}"), "It is about violets and rye.")
            self.assertIn(NOTES, outputs_asked(dialect)["call_read"])

        self.on_each(check)

    def test_a_document_reaches_the_model(self):
        def check(client, model, dialect):
            said = client.ask(model, "read the paper in claude", system="Be a scholar.")
            self.assert_said(said, "I have read it.")
            self.assertIn(PAPER, asked(dialect))
            if dialect == "responses":
                # A document without a name is refused.
                self.assertIn('"filename": "document.pdf"', asked(dialect))

        # Codex reads only texts and pictures.
        self.on_each(check, [ClaudeCode()])

    def test_a_picture_that_a_tool_looked_at_reaches_the_model(self):
        def check(client, model, dialect):
            self.assert_said(client.ask(model, f"look at the picture in {client.name}"), "I see it.")
            self.assertEqual(asked(dialect).count(PIXEL), 1)

        # Gemini CLI puts it into a turn of its own, for which aimock has no fixture.
        self.on_each(check, CLIENTS[:3])

    def test_a_picture_beside_the_prompt_reaches_the_model(self):
        def check(client, model, dialect):
            self.assert_said(client.ask(model, "describe", picture=True), "I see it.")
            self.assertIn(PIXEL, asked(dialect))

        # Claude Code takes no picture on its command line.
        self.on_each(check, [Codex(), CodexOverSocket()])

    def test_thoughts_are_shown_and_go_back_with_the_output(self):
        def check(client, model, dialect):
            said = client.ask(model, f"ponder and run it in {client.name}")
            self.assertTrue(said.went_well, said)
            self.assertTrue(said.text.endswith("The command said signals-42."), said)
            if client.shows_thoughts:
                self.assertEqual(said.thoughts, "A command will tell.")
                self.assertEqual(asked(dialect).count("A command will tell."), 1)

        self.on_each(check)

    def test_a_conversation_goes_on(self):
        def check(client, model, dialect):
            with a_home() as home:
                said = client.ask(model, "think it over", home)
                self.assert_said(said, "42")
                if client.shows_thoughts:
                    self.assertEqual(said.thoughts, "Six times seven.")
                self.assert_said(client.ask(model, "greet", home, again=True), GREETING)
            self.assertEqual(asked(dialect).count("think it over"), 1)
            self.assertIn('"42"', asked(dialect))

        self.on_each(check)

    def test_a_limit_is_no_end(self):
        def check(client, model, dialect):
            said = client.ask(model, "stop early")
            if client.name == "claude":
                # Claude Code asks for the rest.
                self.assert_said(said, "end, but here it is.")
                self.assertIn("This sentence has no", asked(dialect))
            elif dialect != "responses":
                # In the responses dialect aimock does not say why it stopped, and Codex takes that for an end.
                self.assertFalse(said.went_well)
                self.assertIn("This sentence has no", said.text)
                self.assertIn("Incomplete response returned, reason: max_output_tokens", said.text)

        # Gemini CLI shows what there is.
        self.on_each(check, CLIENTS[:3])

    def test_an_upstreams_refusal_is_shown(self):
        def check(client, model, _):
            said = client.ask(model, "refuse")
            self.assertFalse(said.went_well, said)
            self.assertTrue(any(words in said.text for words in client.refusal), said)

        self.on_each(check)

    def test_a_failure_in_the_middle_is_shown(self):
        self.fault("fails", ("The model fell ill",))

    def test_a_line_that_breaks_in_the_middle_is_no_end(self):
        # The second text is Codex's for a WebSocket.
        self.fault("breaks", ("Upstream stream broke", "stream closed before response.completed"))

    def fault(self, fault, wanted):
        def check(client, model, dialect):
            narrow.FAULTS[dialect] = fault
            said = client.ask(model, "greet")
            end_cooldowns(GATEWAY)
            self.assertFalse(said.went_well, said)
            self.assertTrue(any(words in said.text for words in wanted), said)

        # Gemini CLI asks again, for up to a minute.
        self.on_each(check, CLIENTS[:3])


if __name__ == "__main__":
    unittest.main()

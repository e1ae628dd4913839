"""Records a coding session of each command-line client: its requests to an upstream through the gateway,
turn by turn.

usage: record.py <switchyard binary> <aimock's cli.js>

The tests of prompt caches replay these sessions. The model's part is written here; the client's part is real,
from its prompts to the outputs of the commands that it runs. Details of this machine are replaced by general ones, and
the vendors' long texts are cut short.
"""

import base64
import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile

import narrow
import stage

# test_clis reads this; here each client gets a gateway of its own.
os.environ.setdefault("CLIENT_TESTS_GATEWAY", "")
import test_clis  # noqa: E402

SESSIONS = stage.HERE / "sessions"
# The longest text of a vendor's instructions that a session keeps, in characters.
LONGEST = 500
INSTRUCTS = ("developer", "system")
# Patterns of details that differ by machine, day or installation, and their replacements.
GENERAL = [
    (r"/tmp/switchyard-(clis|record)-[a-z0-9_]+", "/home/ada/invoices"),
    (r"-tmp-switchyard-(clis|record)-[a-z0-9_-]+", "-home-ada-invoices"),
    (r"Linux \d[\w.+-]*", "Linux 6.12.0"),
    (r"\b[0-9a-f]{64}\b", "0f" * 32),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "00000000-0000-4000-8000-000000000001"),
    (r"\b20\d\d-\d\d-\d\d\b", "2026-11-23"),
]


def project(home):
    """Writes the files of the task: invoices whose totals are wrong, and the ledger that shows it."""
    row = "{0:04d},{2}.{1}.2026,customer-{3},hours,{4},8250,open\n"
    rows = [row.format(n, n % 12 + 1, n % 28 + 1, n * 7 % 40, n % 9 + 1) for n in range(300)]
    files = {
        "ledger.csv": "id,date,customer,kind,amount,price,state\n" + "".join(rows),
        "invoices.py": '"""Invoices from a ledger."""\n\nimport csv\n\n\ndef read(path):\n    with open(path) as file:\n'
        "        return list(csv.DictReader(file))\n\n\ndef total(rows):\n    return sum(int(row['amount']) + int(row['price']) "
        "for row in rows)\n",
        "test_invoices.py": "import unittest\n\nimport invoices\n\n\nclass Totals(unittest.TestCase):\n    def test_total(self):\n"
        "        rows = [{'amount': '2', 'price': '50'}]\n        self.assertEqual(invoices.total(rows), 100)\n",
    }
    for name, text in files.items():
        pathlib.Path(home, name).write_text(text)
    pathlib.Path(home, "pixel.png").write_bytes(base64.b64decode(test_clis.PIXEL))


# The model's steps for each prompt: commands (several at once in a list), files to read, pictures to see; a text ends them.
WORK = [
    (
        "The totals of our invoices are wrong. Find out why and mend it.",
        [
            ("think", "run", "wc -c *.py *.csv"),
            ("run", "cat invoices.py test_invoices.py"),
            ("run", "cat ledger.csv"),
            ("run", "python3 -m unittest 2>&1 | grep -v Ran"),
            ("run", "sed -i \"s/int(row\\['amount'\\]) + int/int(row['amount']) * int/\" invoices.py && cat invoices.py"),
            ("run", "python3 -m unittest 2>&1 | grep -v Ran"),
            ("say", "The total added amount and price of each row. It multiplies them now, and the test passes."),
        ],
    ),
    (
        "Good. Which customer owes us most? Look at the picture of the report, too.",
        [
            ("think", "both", "sort -t, -k5 -nr ledger.csv | head -40", "cut -d, -f3 ledger.csv | sort | uniq -c"),
            ("see", "pixel.png"),
            ("run", "awk -F, 'NR>1 {owed[$3]+=$5*$6} END {for (it in owed) print owed[it], it}' ledger.csv | sort -nr"),
            ("say", "Each of the first customers in this list owes the same; the picture shows one dot only."),
        ],
    ),
    (
        "Write that as a function with a test.",
        [
            ("run", "printf '\\n\\ndef owed(rows):\\n    sums = {}\\n    for row in rows:\\n        sums[row[\"customer\"]] = sums.get(row[\"customer\"], 0) + int(row[\"amount\"]) * int(row[\"price\"])\\n    return sums\\n' >> invoices.py && cat invoices.py"),
            ("think", "run", "printf '\\n    def test_owed(self):\\n        rows = [{\"customer\": \"a\", \"amount\": \"2\", \"price\": \"50\"}]\\n        self.assertEqual(invoices.owed(rows), {\"a\": 100})\\n' >> test_invoices.py && cat test_invoices.py"),
            ("run", "python3 -m unittest 2>&1 | grep -v Ran"),
            ("run", "python3 -c \"import invoices; print(invoices.owed(invoices.read('ledger.csv')))\""),
            ("say", "`owed` gives what each customer owes, and its test passes."),
        ],
    ),
    (
        "And what remains of the ledger once the small ones are paid?",
        [
            ("run", "awk -F, '$5>4' ledger.csv"),
            ("run", "awk -F, '$5>4 {sum+=$5*$6} END {print sum}' ledger.csv"),
            ("run", "no-such-command || echo it is missing"),
            ("run", "awk -F, '$5>6' ledger.csv | tail -20"),
            ("say", "Half of the rows remain, and most of the money."),
        ],
    ),
]


class Recorded(test_clis.ClaudeCode):
    """Claude Code: Bash for commands, Read for pictures; an answer counts as one turn of the assistant."""

    dialect, file = "messages", "claude_code"

    def run(self, command):
        return "Bash", {"command": command, "description": "Look"}

    def see(self, name):
        return "Read", {"file_path": name}

    def counts(self, calls, has_text):
        return 1


class RecordedCodex(test_clis.Codex):
    """Codex: exec_command and view_image; each call and each text is an item of its own."""

    dialect, file = "responses", "codex"

    def run(self, command):
        return "exec_command", {"cmd": command}

    def see(self, name):
        return "view_image", {"path": name}

    def counts(self, calls, has_text):
        return calls + has_text


def fixtures(client):
    """Builds the model's part for aimock: its answer after each number of turns of its own."""
    listed, turn = [], 0
    for prompt_number, (_, steps) in enumerate(WORK):
        for number, step in enumerate(steps):
            thinks, (verb, *rest) = step[0] == "think", step[1:] if step[0] == "think" else step
            response = {}
            if thinks:
                response = {"reasoning": f"What matters in step {number} is plain.", "content": "Let me see."}
            calls = []
            if verb == "say":
                response["content"] = rest[0]
            else:
                calls = [getattr(client, "see" if verb == "see" else "run")(word) for word in rest]
                response["toolCalls"] = [
                    {"id": f"call_{prompt_number}_{number}_{place}", "name": name, "arguments": json.dumps(arguments)}
                    for place, (name, arguments) in enumerate(calls)
                ]
            listed.append({"match": {"model": narrow.MODEL, "turnIndex": turn}, "response": response})
            turn += client.counts(len(calls), "content" in response)
    return {"fixtures": listed}


def general(value):
    if isinstance(value, str):
        for pattern, instead in GENERAL:
            value = re.sub(pattern, instead, value)
        return value
    if isinstance(value, list):
        return [general(item) for item in value]
    if isinstance(value, dict):
        return {name: general(item) for name, item in value.items()}
    return value


def short(value):
    """Cuts the long texts of a value short."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]} […]"
    if isinstance(value, list):
        return [short(item) for item in value]
    if isinstance(value, dict):
        return {name: short(item) for name, item in value.items()}
    return value


def session(client, asked):
    """Builds a session for its file. Each turn has the number of items that it shares with the turn before, the items that
    follow, and the other members that have changed."""
    said = "input" if client.dialect == "responses" else "messages"
    turns, last = [], {said: []}
    for body in asked:
        if not body.get("tools"):
            # Not part of the conversation; for example, a request for the session's title.
            continue
        body = general(body)
        # System and developer messages are the vendor's texts.
        conversation = [short(item) if item.get("role") in INSTRUCTS else item for item in body[said]]
        body = {**{name: short(value) for name, value in body.items()}, said: conversation}
        kept = 0
        for one, other in zip(last[said], conversation):
            if one != other:
                break
            kept += 1
        members = {name: value for name, value in body.items() if name != said and last.get(name) != value}
        gone = {name: None for name in last if name not in body}
        turns.append({"kept": kept, "said": conversation[kept:], "members": {**members, **gone}})
        last = body
    return {"client": client.name, "path": narrow.PATHS[client.dialect], "said": said, "turns": turns}


def record(binary, aimock, client):
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="switchyard-record-"))
        written = pathlib.Path(folder, "fixtures.json")
        written.write_text(json.dumps(fixtures(client)))
        upstream = stack.enter_context(stage.upstream_process(aimock, written))
        test_clis.GATEWAY = stack.enter_context(stage.gateway_process(binary))
        model = narrow.model_of(client.dialect)
        address = stack.enter_context(narrow.upstream(upstream, client.dialect))
        stage.add_account(test_clis.GATEWAY, client.dialect, "new-api", address)
        stage.await_models(test_clis.GATEWAY, {model})
        narrow.ASKED.clear()
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="switchyard-record-"))
        project(home)
        for number, (prompt, steps) in enumerate(WORK):
            said = client.ask(model, prompt, home, again=number > 0)
            if not said.went_well or not said.text.endswith(steps[-1][-1]):
                raise SystemExit(f"{client.name}: {prompt}: {said}")
        kept = session(client, [body for dialect, body in narrow.ASKED if dialect == client.dialect])
    text = json.dumps(kept, ensure_ascii=False, indent=1)
    (SESSIONS / f"{client.file}.json").write_text(text + "\n")
    print(f"{client.name}: {len(kept['turns'])} turns, {len(text)} characters")


if __name__ == "__main__":
    SESSIONS.mkdir(exist_ok=True)
    os.environ["AIMOCK_STRICT_TURN_INDEX"] = "1"
    for recorded in (Recorded(), RecordedCodex()):
        record(*sys.argv[1:], recorded)

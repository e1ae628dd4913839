"""Tests upstreams that are silent for a while, before their answer and in the middle of it: heartbeats that clients of the
dialect ignore keep a stream open. test_node_sdks tests that the SDKs ignore them, test_clis that the command lines do."""

import json
import os
import unittest
import urllib.request

import narrow
from stage import PROXY_TOKEN, SOON

GATEWAY = os.environ["CLIENT_TESTS_GATEWAY"]
TURNS = [{"role": "user", "content": "greet"}]
ASKED = {
    "/v1/chat/completions": {"messages": TURNS},
    "/v1/responses": {"input": "greet"},
    "/v1/messages": {"messages": TURNS, "max_tokens": 100},
}


def stream(path, body):
    headers = {"Authorization": f"Bearer {PROXY_TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(GATEWAY + path, data=json.dumps({**body, "stream": True}).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=SOON) as answer:
        return answer.read().decode()


class Heartbeats(unittest.TestCase):
    def test_a_silent_stream_is_kept_open(self):
        for dialect in narrow.PATHS:
            for path, body in ASKED.items():
                with self.subTest(upstream=dialect, path=path):
                    told = stream(path, {**body, "model": narrow.model_of(dialect, silent=True)})
                    heartbeat = "event: ping\n" if path == "/v1/messages" else ": keep-alive\n\n"
                    before, words, behind = told.partition("Gr\u00fc")
                    self.assertTrue(words, told)
                    self.assertIn(heartbeat, before)
                    self.assertIn(heartbeat, behind)


if __name__ == "__main__":
    unittest.main()

"""Tests the helpers of the SDKs for Node (sdks.mjs) with upstreams that speak one dialect each."""

import json
import os
import pathlib
import subprocess
import unittest

import narrow
from stage import PROXY_TOKEN

SCRIPT = pathlib.Path(__file__).with_name("sdks.mjs")
# The seconds that the whole script may take.
SOON = 120.0


class NodeSdks(unittest.TestCase):
    def test_the_helpers_work_with_every_upstream(self):
        models = [narrow.model_of(dialect, silent) for dialect in narrow.PATHS for silent in (False, True)]
        environment = {**os.environ, "CLIENT_TESTS_TOKEN": PROXY_TOKEN}
        done = subprocess.run(["node", SCRIPT, *models], env=environment, capture_output=True, text=True, timeout=SOON)
        self.assertEqual(done.returncode, 0, done.stderr)
        cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertGreater(len(cases), len(models))
        for case in cases:
            with self.subTest(case["name"]):
                self.assertIsNone(case["problem"], done.stderr)

"""Tests the official Anthropic SDK: messages, the list of models in its format, and its typed errors."""

import os
import unittest

import anthropic

from stage import BREAKING, MODELS, NARROW, PROXY_TOKEN, SOON

GATEWAY = os.environ["CLIENT_TESTS_GATEWAY"]
GREETING = "Grüße aus Köln, one word after the other, until the sentence is complete."
GREET = {"model": "talker", "max_tokens": 64, "messages": [{"role": "user", "content": "greet"}]}
WEATHER = {
    "model": "talker",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "weather"}],
    "tools": [{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}],
}


def client(key=PROXY_TOKEN):
    return anthropic.Anthropic(base_url=GATEWAY, api_key=key, max_retries=0, timeout=SOON)


class Messages(unittest.TestCase):
    def test_a_complete_answer(self):
        reply = client().messages.create(**GREET)
        self.assertEqual(reply.content[0].text, GREETING)
        self.assertEqual(reply.stop_reason, "end_turn")
        self.assertEqual((reply.usage.input_tokens, reply.usage.output_tokens), (11, 7))

    def test_a_stream_has_its_grammar(self):
        events = list(client().messages.create(**GREET, stream=True))
        self.assertEqual(events[0].type, "message_start")
        self.assertEqual(events[-1].type, "message_stop")
        deltas = [event.delta.text for event in events if event.type == "content_block_delta"]
        self.assertEqual("".join(deltas), GREETING)
        self.assertGreater(len(deltas), 1)

    def test_the_stream_helper_builds_the_whole_answer(self):
        with client().messages.stream(**GREET) as stream:
            text = "".join(stream.text_stream)
            reply = stream.get_final_message()
        self.assertEqual(text, GREETING)
        self.assertEqual((reply.content[0].text, reply.stop_reason), (GREETING, "end_turn"))
        self.assertEqual(reply.usage.output_tokens, 7)

    def test_a_tool_call_is_whole_streamed_and_not(self):
        reply = client().messages.create(**WEATHER)
        with client().messages.stream(**WEATHER) as stream:
            streamed = stream.get_final_message()
        for answer in (reply, streamed):
            [call] = [block for block in answer.content if block.type == "tool_use"]
            self.assertEqual((call.id, call.name, call.input), ("call_weather_1", "get_weather", {"city": "Oslo"}))
            self.assertEqual(answer.stop_reason, "tool_use")

    def test_a_key_works_in_either_header(self):
        for other in ("X-Api-Key", "Authorization"):
            key = {"X-Api-Key": PROXY_TOKEN, "Authorization": f"Bearer {PROXY_TOKEN}", other: anthropic.Omit()}
            reply = client("unused").messages.create(**GREET, extra_headers=key)
            self.assertEqual(reply.content[0].text, GREETING)


class Models(unittest.TestCase):
    def test_the_list_has_this_apis_shape(self):
        page = client().models.list()
        names = [model.id for model in page.data]
        self.assertEqual([name for name in names if name not in BREAKING], sorted(MODELS | NARROW))
        self.assertEqual({model.type for model in page.data}, {"model"})
        self.assertEqual((page.first_id, page.last_id, page.has_more), (names[0], names[-1], False))


class Errors(unittest.TestCase):
    def test_a_wrong_key_is_refused(self):
        with self.assertRaises(anthropic.PermissionDeniedError) as caught:
            client("sk-wrong").messages.create(**GREET)
        self.assertEqual(caught.exception.body["type"], "error")
        self.assertTrue(caught.exception.request_id)

    def test_a_missing_key_is_refused(self):
        nothing = {"X-Api-Key": anthropic.Omit(), "Authorization": anthropic.Omit()}
        with self.assertRaises(anthropic.AuthenticationError) as caught:
            client().messages.create(**GREET, extra_headers=nothing)
        self.assertEqual(caught.exception.body["error"]["type"], "authentication_error")

    def test_an_unknown_model_has_no_channel(self):
        for stream in (False, True):
            with self.assertRaises(anthropic.APIStatusError) as caught:
                client().messages.create(**{**GREET, "model": "nobody"}, stream=stream)
            self.assertEqual(caught.exception.status_code, 503)
            self.assertEqual(caught.exception.body["error"]["type"], "overloaded_error")
            self.assertIn("No available channels for this model", caught.exception.body["error"]["message"])

    def test_the_upstreams_refusal_is_passed_on_and_cools_nothing(self):
        for stream in (False, True, False):
            with self.assertRaises(anthropic.BadRequestError) as caught:
                client().messages.create(**{**GREET, "model": "refuses"}, stream=stream)
            error = caught.exception.body["error"]
            self.assertEqual(error["type"], "invalid_request_error")
            self.assertIn("maximum context length", error["message"])

    def test_a_stream_that_breaks_after_output_raises(self):
        seen = []
        with self.assertRaises(anthropic.APIStatusError) as caught:
            for event in client().messages.create(**{**GREET, "model": "breaks-messages"}, stream=True):
                seen.append(event.type)
        self.assertIn("content_block_delta", seen)
        self.assertEqual(caught.exception.body["error"]["type"], "api_error")

    def test_a_bad_body_names_the_field(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            client().messages.create(**{**GREET, "messages": []})
        self.assertIn("messages", caught.exception.body["error"]["message"])

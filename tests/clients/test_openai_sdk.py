"""Tests the official OpenAI SDK: chat, responses, embeddings, images, videos, models, and its typed errors."""

import os
import time
import unittest
import warnings

import openai

from stage import ADMIN_TOKEN, BREAKING, MODELS, NARROW, PROXY_TOKEN, SOON, ask

GATEWAY = os.environ["CLIENT_TESTS_GATEWAY"]
GREETING = "Grüße aus Köln, one word after the other, until the sentence is complete."
GREET = [{"role": "user", "content": "greet"}]
WEATHER = [{"role": "user", "content": "weather"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def client(key=PROXY_TOKEN):
    return openai.OpenAI(base_url=f"{GATEWAY}/v1", api_key=key, max_retries=0, timeout=SOON)


class Chat(unittest.TestCase):
    def test_a_complete_answer(self):
        reply = client().chat.completions.create(model="talker", messages=GREET)
        self.assertEqual(reply.choices[0].message.content, GREETING)
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertEqual((reply.usage.prompt_tokens, reply.usage.completion_tokens), (11, 7))

    def test_a_stream_arrives_in_pieces_and_ends_with_its_usage(self):
        chunks = list(
            client().chat.completions.create(
                model="talker", messages=GREET, stream=True, stream_options={"include_usage": True}
            )
        )
        pieces = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
        self.assertEqual("".join(pieces), GREETING)
        self.assertGreater(len(pieces), 1)
        self.assertEqual(chunks[-1].usage.total_tokens, 18)

    def test_the_stream_helper_builds_the_whole_answer(self):
        with client().chat.completions.stream(model="talker", messages=GREET) as stream:
            kinds = {event.type for event in stream}
            reply = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        self.assertEqual(reply.choices[0].message.content, GREETING)

    def test_a_tool_call_is_whole_streamed_and_not(self):
        reply = client().chat.completions.create(model="talker", messages=WEATHER, tools=[TOOL])
        with client().chat.completions.stream(model="talker", messages=WEATHER, tools=[TOOL]) as stream:
            streamed = stream.get_final_completion()
        for answer in (reply, streamed):
            [call] = answer.choices[0].message.tool_calls
            self.assertEqual((call.id, call.function.name), ("call_weather_1", "get_weather"))
            self.assertIn("Oslo", call.function.arguments)


class Responses(unittest.TestCase):
    def test_a_complete_answer(self):
        reply = client().responses.create(model="talker", input="greet")
        self.assertEqual(reply.output_text, GREETING)
        self.assertEqual((reply.status, reply.usage.output_tokens), ("completed", 7))

    def test_a_stream_has_its_grammar(self):
        events = list(client().responses.create(model="talker", input="greet", stream=True))
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.completed")
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        self.assertEqual("".join(deltas), GREETING)
        self.assertGreater(len(deltas), 1)

    def test_the_stream_helper_builds_the_whole_answer(self):
        with client().responses.stream(model="talker", input="greet") as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_response().output_text, GREETING)


class OtherSurfaces(unittest.TestCase):
    def test_embeddings(self):
        # The SDK requests base64 by default.
        reply = client().embeddings.create(model="embedder", input="text")
        self.assertEqual(reply.data[0].embedding, [0.25, -0.5, 1.0])
        reply = client().embeddings.create(model="embedder", input=["text"], encoding_format="float")
        self.assertEqual(reply.data[0].embedding, [0.25, -0.5, 1.0])

    def test_images(self):
        reply = client().images.generate(model="painter", prompt="a painting")
        self.assertEqual(reply.data[0].b64_json, "aGVsbG8=")

    def test_models(self):
        listed = [model for model in client().models.list() if model.id not in BREAKING]
        self.assertEqual([model.id for model in listed], sorted(MODELS | NARROW))
        self.assertEqual({model.object for model in listed}, {"model"})
        self.assertEqual(client().models.retrieve("talker").id, "talker")
        with self.assertRaises(openai.NotFoundError) as caught:
            client().models.retrieve("nobody")
        self.assertEqual(caught.exception.code, "model_not_found")


class Errors(unittest.TestCase):
    def test_a_wrong_key_is_refused(self):
        with self.assertRaises(openai.PermissionDeniedError) as caught:
            client("sk-wrong").chat.completions.create(model="talker", messages=GREET)
        self.assertEqual(caught.exception.code, "invalid_api_key")
        self.assertTrue(caught.exception.request_id)

    def test_a_missing_key_is_refused(self):
        with self.assertRaises(openai.AuthenticationError) as caught:
            client().models.list(extra_headers={"Authorization": openai.Omit()})
        self.assertEqual(caught.exception.code, "missing_api_key")

    def test_an_unknown_model_has_no_channel(self):
        for call in (
            lambda: client().chat.completions.create(model="nobody", messages=GREET),
            lambda: client().chat.completions.create(model="nobody", messages=GREET, stream=True),
            lambda: client().responses.create(model="nobody", input="greet"),
            lambda: client().embeddings.create(model="nobody", input="greet"),
        ):
            with self.assertRaises(openai.InternalServerError) as caught:
                call()
            self.assertEqual(caught.exception.status_code, 503)
            self.assertEqual(caught.exception.type, "server_error")
            self.assertIn("No available channels for this model", caught.exception.message)

    def test_the_upstreams_refusal_is_passed_on_and_cools_nothing(self):
        for stream in (False, True, False):
            with self.assertRaises(openai.BadRequestError) as caught:
                client().chat.completions.create(model="refuses", messages=GREET, stream=stream)
            self.assertEqual(caught.exception.code, "context_length_exceeded")
            self.assertEqual(caught.exception.type, "invalid_request_error")
            self.assertIn("maximum context length", caught.exception.message)

    def test_a_chat_stream_that_breaks_after_output_raises(self):
        seen = []
        with self.assertRaises(openai.APIError) as caught:
            for chunk in client().chat.completions.create(model="breaks-chat", messages=GREET, stream=True):
                seen.append(chunk.choices[0].delta.content or "")
        self.assertIn("The line", "".join(seen))
        self.assertEqual(caught.exception.type, "stream_error")

    def test_a_response_that_breaks_after_output_has_failed(self):
        events = list(client().responses.create(model="breaks-responses", input="greet", stream=True))
        self.assertIn("response.output_text.delta", [event.type for event in events])
        self.assertEqual((events[-1].type, events[-1].response.status), ("response.failed", "failed"))
        self.assertTrue(events[-1].response.error.message)

    def test_a_bad_body_names_the_field(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            client().chat.completions.create(model="talker", messages=[])
        self.assertEqual(caught.exception.param, "messages")
        self.assertEqual(caught.exception.type, "invalid_request_error")


class Videos(unittest.TestCase):
    def test_a_video_is_created_polled_and_deleted(self):
        videos = client().videos
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            picture = ("a.png", b"\x89PNG\r\n\x1a\n\x00", "image/png")
            video = videos.create_and_poll(model="filmmaker", prompt="A signal box", input_reference=picture, seconds="4")
            self.assertRegex(video.id, "^vid_[0-9a-z]+_[0-9a-z]{8}$")
            self.assertEqual(video.status, "completed")
            self.assertEqual(videos.retrieve(video.id).id, video.id)
            videos.delete(video.id)
            for gone in [videos.retrieve, videos.delete, videos.download_content]:
                with self.assertRaises(openai.NotFoundError) as caught:
                    gone(video.id)
                self.assertEqual(caught.exception.type, "not_found_error")


class Log(unittest.TestCase):
    def test_a_stream_is_logged_with_its_usage(self):
        options = {"include_usage": True}
        for _ in client().chat.completions.create(model="talker", messages=GREET, stream=True, stream_options=options):
            pass
        deadline = time.monotonic() + SOON
        while True:
            rows = ask(GATEWAY, "GET", "/api/stats/proxy-logs?limit=100", token=ADMIN_TOKEN)["items"]
            rows = [row for row in rows if row["isStream"] and row["totalTokens"] == 18]
            if rows or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        self.assertTrue(rows, "no row with the usage of the greeting")
        self.assertEqual(rows[0]["status"], "success")

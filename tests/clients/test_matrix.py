"""Tests every client on every upstream: the SDKs of three dialects, with upstreams that speak one dialect
each. What a client sees must not depend on the upstream."""

import json
import os
import unittest

import anthropic
import openai

import narrow
from stage import PROXY_TOKEN, SOON

GATEWAY = os.environ["CLIENT_TESTS_GATEWAY"]
GREETING = "Grüße aus Köln 😀, one word after the other, until the sentence is complete."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJeLjz9MKdHJhaWxlcgo8PD4+CiUlRU9G"


def openai_client():
    return openai.OpenAI(base_url=f"{GATEWAY}/v1", api_key=PROXY_TOKEN, max_retries=0, timeout=SOON)


def anthropic_client():
    return anthropic.Anthropic(base_url=GATEWAY, api_key=PROXY_TOKEN, max_retries=0, timeout=SOON)


class Seen:
    """An answer in a form that is the same for all clients."""

    def __init__(self, text="", calls=(), thinking="", stop="", usage=None):
        self.text, self.calls, self.thinking, self.stop, self.usage = text, list(calls), thinking, stop, usage


class ChatSpeaker:
    failure = openai.BadRequestError

    def ask(self, model, text, streamed, system=None, tools=False, image=False, file=False, results=None):
        content = text
        if image:
            picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}}
            content = [{"type": "text", "text": text}, picture]
        if file:
            document = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
            content = [{"type": "text", "text": text}, {"type": "file", "file": document}]
        messages = [{"role": "user", "content": content}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        for call_id, name, arguments, result in results or []:
            function = {"name": name, "arguments": json.dumps(arguments)}
            messages.append({"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]})
            messages.append({"role": "tool", "tool_call_id": call_id, "content": result})
        request = {"model": model, "messages": messages}
        if tools:
            request["tools"] = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA, "strict": True}}]
        client = openai_client().chat.completions
        if streamed:
            with client.stream(**request, stream_options={"include_usage": True}) as stream:
                stream.until_done()
                try:
                    reply = stream.get_final_completion()
                except openai.LengthFinishReasonError as cut:
                    reply = cut.completion
        else:
            reply = client.create(**request)
        [choice] = reply.choices
        calls = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []]
        stop = {"stop": "end", "tool_calls": "call", "length": "limit"}[choice.finish_reason]
        thinking = getattr(choice.message, "reasoning_content", None) or ""
        usage = reply.usage and (reply.usage.prompt_tokens, reply.usage.completion_tokens)
        return Seen(choice.message.content or "", calls, thinking, stop, usage)


class ResponsesSpeaker:
    failure = openai.BadRequestError

    def ask(self, model, text, streamed, system=None, tools=False, image=False, file=False, results=None):
        content = [{"type": "input_text", "text": text}]
        if image:
            content.append({"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"})
        if file:
            content.append({"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"})
        items = [{"role": "user", "content": content}]
        for call_id, name, arguments, result in results or []:
            items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)})
            items.append({"type": "function_call_output", "call_id": call_id, "output": result})
        request = {"model": model, "input": items}
        if system:
            request["instructions"] = system
        if tools:
            request["tools"] = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": True}]
        client = openai_client().responses
        if streamed:
            with client.stream(**request) as stream:
                *_, last = stream
                # The helper only knows completed answers.
                reply = last.response if last.type == "response.incomplete" else stream.get_final_response()
        else:
            reply = client.create(**request)
        calls = [(item.call_id, item.name, json.loads(item.arguments)) for item in reply.output if item.type == "function_call"]
        thinking = "".join(part.text for item in reply.output if item.type == "reasoning" for part in item.summary)
        stop = {"completed": "end", "incomplete": "limit"}[reply.status]
        if stop == "limit" and model != narrow.model_of("responses"):
            # The gateway's answers give the reason; aimock's do not.
            assert reply.incomplete_details.reason == "max_output_tokens", reply.incomplete_details
        usage = reply.usage and (reply.usage.input_tokens, reply.usage.output_tokens)
        return Seen(reply.output_text, calls, thinking, "call" if calls else stop, usage)


class MessagesSpeaker:
    failure = anthropic.BadRequestError

    def ask(self, model, text, streamed, system=None, tools=False, image=False, file=False, results=None):
        content = [{"type": "text", "text": text}]
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
            content.append({"type": "image", "source": source})
        if file:
            source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
            content.append({"type": "document", "source": source})
        messages = [{"role": "user", "content": content}]
        for call_id, name, arguments, result in results or []:
            messages.append({"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": name, "input": arguments}]})
            messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": result}]})
        request = {"model": model, "max_tokens": 1000, "messages": messages}
        if system:
            request["system"] = system
        if tools:
            request["tools"] = [{"name": "get_weather", "input_schema": SCHEMA}]
        client = anthropic_client().messages
        if streamed:
            with client.stream(**request) as stream:
                stream.until_done()
                reply = stream.get_final_message()
        else:
            reply = client.create(**request)
        kinds = lambda kind: [block for block in reply.content if block.type == kind]
        calls = [(block.id, block.name, block.input) for block in kinds("tool_use")]
        stop = {"end_turn": "end", "tool_use": "call", "max_tokens": "limit"}[reply.stop_reason]
        return Seen(
            "".join(block.text for block in kinds("text")),
            calls,
            "".join(block.thinking for block in kinds("thinking")),
            stop,
            (reply.usage.input_tokens, reply.usage.output_tokens),
        )


SPEAKERS = {"chat": ChatSpeaker(), "responses": ResponsesSpeaker(), "messages": MessagesSpeaker()}


class Matrix(unittest.TestCase):
    def everywhere(self, check, streams=(False, True)):
        for client, speaker in SPEAKERS.items():
            for upstream in narrow.PATHS:
                for streamed in streams:
                    with self.subTest(client=client, upstream=upstream, streamed=streamed):
                        check(speaker, narrow.model_of(upstream), streamed, upstream)

    def test_a_text_arrives_whole_with_its_usage(self):
        def check(speaker, model, streamed, _):
            seen = speaker.ask(model, "greet", streamed)
            self.assertEqual((seen.text, seen.stop, seen.usage), (GREETING, "end", (11, 7)))

        self.everywhere(check)

    def test_the_system_prompt_counts(self):
        def check(speaker, model, streamed, _):
            self.assertEqual(speaker.ask(model, "greet", streamed, system="Speak like a captain.").text, "Ahoy.")

        self.everywhere(check)

    def test_a_tool_is_called(self):
        def check(speaker, model, streamed, _):
            seen = speaker.ask(model, "weather", streamed, tools=True)
            self.assertEqual((seen.calls, seen.stop), ([("call_oslo", "get_weather", {"city": "Oslo"})], "call"))

        self.everywhere(check)

    def test_tools_are_called_in_parallel(self):
        def check(speaker, model, streamed, _):
            seen = speaker.ask(model, "both cities", streamed, tools=True)
            wanted = [("call_oslo", "get_weather", {"city": "Oslo"}), ("call_rome", "get_weather", {"city": "Rome"})]
            self.assertEqual((seen.calls, seen.stop), (wanted, "call"))

        self.everywhere(check)

    def test_a_result_finds_its_call(self):
        def check(speaker, model, streamed, upstream):
            results = [("call_oslo", "get_weather", {"city": "Oslo"}, "sunny, 21 degrees")]
            seen = speaker.ask(model, "how is it", streamed, tools=True, results=results)
            self.assertEqual((seen.text, seen.stop), ("It is sunny in Oslo.", "end"))
            self.assertEqual(json.dumps(narrow.LAST[upstream]).count('"call_oslo"'), 2)

        self.everywhere(check)

    def test_images_and_files_reach_the_model(self):
        def check(speaker, model, streamed, upstream):
            for sent, data in (({"image": True}, PIXEL), ({"file": True}, PDF)):
                self.assertEqual(speaker.ask(model, "describe", streamed, **sent).text, "I see it.")
                self.assertIn(data, json.dumps(narrow.LAST[upstream]))

        self.everywhere(check)

    def test_thinking_is_shown_apart(self):
        def check(speaker, model, streamed, _):
            seen = speaker.ask(model, "think", streamed)
            self.assertEqual((seen.thinking, seen.text), ("Six times seven.", "42"))

        self.everywhere(check)

    def test_a_limit_is_no_end(self):
        def check(speaker, model, streamed, _):
            seen = speaker.ask(model, "stop early", streamed)
            self.assertEqual((seen.text, seen.stop), ("This sentence has no", "limit"))

        self.everywhere(check)

    def test_a_refusal_is_the_clients_error(self):
        def check(speaker, model, streamed, _):
            with self.assertRaises(speaker.failure) as caught:
                speaker.ask(model, "refuse", streamed)
            self.assertIn("maximum context length", str(caught.exception))

        self.everywhere(check)

    def test_a_legacy_completion_is_asked_as_a_chat(self):
        for upstream in narrow.PATHS:
            with self.subTest(upstream=upstream):
                client, request = openai_client().completions, {"model": narrow.model_of(upstream), "prompt": "greet"}
                reply = client.create(**request, max_tokens=100)
                [choice] = reply.choices
                self.assertEqual((choice.text, choice.finish_reason), (GREETING, "stop"))
                self.assertEqual((reply.object, reply.usage.prompt_tokens, reply.usage.completion_tokens), ("text_completion", 11, 7))
                chunks = list(client.create(**request, stream=True, stream_options={"include_usage": True}))
                self.assertEqual("".join(choice.text for chunk in chunks for choice in chunk.choices), GREETING)
                self.assertEqual((chunks[-1].choices, chunks[-1].usage.total_tokens), ([], 18))
                with self.assertRaises(openai.BadRequestError) as caught:
                    client.create(**{**request, "prompt": ["greet", "greet"]})
                self.assertEqual(caught.exception.param, "prompt")

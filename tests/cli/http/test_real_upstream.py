"""A server of OpenAI's protocol that is not ours, `transformers serve` with a tiny Llama: what reaches clients through us."""

import json
import subprocess
import time
from contextlib import closing, suppress
from shutil import which
from socket import create_server
from typing import Any

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from mbc_cli.http.upstream import Upstream
from mbc_engine.lm.chat import open_chat
from tests.cli.stub_memory import source
from tests.needs import PATIENCE

QUESTION = "Where did Ada move?"
FEW = 12

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("upstream"),
    pytest.mark.skipif(which("transformers") is None, reason="the command transformers is not installed"),
]


@pytest.fixture(scope="module")
def served(chat_lm):
    """The address of a server with one language model."""
    with closing(create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = ["transformers", "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu", str(chat_lm)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            end, url = time.monotonic() + PATIENCE, f"http://127.0.0.1:{port}"
            while time.monotonic() < end and process.poll() is None:
                with suppress(httpx.HTTPError):
                    if httpx.get(f"{url}/health").is_success:
                        break
                time.sleep(0.2)
            yield f"{url}/v1"
        finally:
            process.terminate()


def greedy(folder, said, most):
    """What the model replies, computed here."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    turns = [{"role": "user", "content": said}]
    given = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        made = model.generate(**given, max_new_tokens=most, do_sample=False)
    return str(tokenizer.decode(made[0, given["input_ids"].shape[1] :], skip_special_tokens=True))


def test_a_served_model_writes(served, chat_lm, monkeypatch):
    monkeypatch.setattr("mbc_engine.lm.chat._THINKING_TOKENS", 0)
    pieces: list[str] = []
    lm = open_chat(f"{served}#{chat_lm}")
    reply = lm.reply("Ada moved to Aalen.", QUESTION, max_new_tokens=FEW, on_token=pieces.append)
    assert reply == "".join(pieces).strip() == greedy(chat_lm, f"Ada moved to Aalen.\n\n{QUESTION}", FEW).strip() != ""


@pytest.mark.parametrize("streams", [False, True])
async def test_its_replies_pass_through(served, chat_lm, serving, *, streams):
    running = serving(upstream=(upstream := Upstream(served)))
    running.memory.passages = (source(passage=None),)  # none to give
    turns = [{"role": "user", "content": QUESTION}]
    body = {"model": str(chat_lm), "messages": turns, "max_tokens": FEW, "temperature": 0, "stream": streams}
    response = await running.client.post("/v1/chat/completions", json=body)
    await upstream.close()
    if streams:
        chunks = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line.startswith("data: {")]
        choices = [choice for chunk in chunks for choice in json.loads(chunk)["choices"]]
        text = "".join(choice["delta"].get("content") or "" for choice in choices)
    else:
        text = response.json()["choices"][0]["message"]["content"]
    unfinished = "\ufffd"  # half of a letter, which a stream does not end with
    assert text.rstrip(unfinished) == greedy(chat_lm, QUESTION, FEW).rstrip(unfinished)

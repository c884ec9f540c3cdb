"""Chat LMs: one that runs here, or one behind a server that speaks OpenAI's protocol (Ollama, llama.cpp, vLLM, …)."""

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.machine import require_extra

if TYPE_CHECKING:
    from mbc_engine.lm.base import BaseLM, KVPrefix

OnToken = Callable[[str], None] | None
Turn = tuple[str, str]  # what a user says, and the reply

KEY_VARIABLE, KEY_FILE_VARIABLE = "MBC_LLM_KEY", "MBC_LLM_KEY_FILE"
_OLLAMA: Final = "ollama/"
_OLLAMA_URL: Final = "http://localhost:11434/v1"
# Where servers are by default: what names their models begins with, and the address. LM Studio; llama.cpp; vLLM.
_LOCAL_SERVERS: Final = {_OLLAMA: _OLLAMA_URL} | {
    f"{url}#": url for url in (f"http://localhost:{port}/v1" for port in (1234, 8080, 8000))
}
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
# Prefixes of texts whose keys and values are kept: 23 kB per token for SmolLM2-135M in bf16.
_KEPT_PREFIXES: Final = 4
# A text for a server is cut to about 2,500 tokens, which fits the shortest contexts that servers set by default.
_SERVED_CHARACTERS: Final = 10_000
# Some LMs think aloud before they answer; that counts against what they may write.
_THINKING_TOKENS: Final = 2048
_SECONDS: Final = 300.0
_LONGEST_LISTING: Final = 1 << 20
THOUGHTS: Final = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)
_THINKING: Final = "<think>"


class ChatLM(ABC):
    """An LM that replies to a message; `name` is as `open_chat` was given it."""

    name: str

    @abstractmethod
    def reply(self, text: str, question: str, *, max_new_tokens: int, on_token: OnToken = None) -> str:
        """The reply to a text and a question about it, stripped, as likely as it gets, streamed to `on_token`.

        The text, not the question, is cut to what fits. Raises ConfigError if not even the question and a reply fit,
        ModelError if a server does not reply.
        """


# Placeholders for the text and the question, while a chat template is rendered.
_TEXT, _QUESTION = "\ue000", "\ue001"


class LocalChat(ChatLM):
    """An LM that runs here. Keys and values of the last texts are kept.

    Nothing in a text or question acts as one of the special tokens of the LM's chat template. Raises ModelError if its
    tokenizer has no usable one. `turns` are examples of what is asked and replied; with them, replies have one line.
    """

    def __init__(self, base: "BaseLM", name: str, turns: Sequence[Turn] = ()) -> None:
        from jinja2 import TemplateError

        self.base, self.name, self._has_lines = base, name, not turns
        tokenizer = base.tokenizer
        if not tokenizer.chat_template:
            raise ModelError(f"The language model {name} has no chat template.", hint="Use an instruct model.")
        said = [*(words for turn in turns for words in turn), f"{_TEXT}\n\n{_QUESTION}"]
        messages = [
            {"role": role, "content": words} for role, words in zip(cycle(("user", "assistant")), said, strict=False)
        ]
        try:
            filled = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
            parts = re.split(f"[{_TEXT}{_QUESTION}]", str(filled))
            self._head, self._middle, self._tail = map(tuple, tokenizer(parts, add_special_tokens=False)["input_ids"])
        except (TemplateError, ValueError) as error:
            raise ModelError(
                f"The chat template of {name} cannot be used: {error}", hint="Use another instruct model."
            ) from error
        # Tokenizers split only tokens that are marked as special, which <tool_call>, for one, may not be.
        self._acting = {id for token, id in tokenizer.get_added_vocab().items() if token.strip()}
        self._prefixes: dict[tuple[int, ...], KVPrefix] = {}

    def reply(self, text: str, question: str, *, max_new_tokens: int, on_token: OnToken = None) -> str:
        row = [*self._middle, *self._tokens(question), *self._tail]
        room = self.base.context - len(self._head) - len(row) - max_new_tokens
        if room < 0:
            raise ConfigError(
                f"The question and an answer of {max_new_tokens} tokens do not fit the context of {self.name}, "
                f"{self.base.context} tokens.",
                hint="Ask for a shorter answer.",
            )
        prefix = self._prefix(tuple(self._tokens(text)[:room]))
        (reply,) = self.base.complete(
            prefix, [row], max_new_tokens=max_new_tokens, on_token=on_token, has_lines=self._has_lines
        )
        return THOUGHTS.sub("", reply, count=1)

    def _tokens(self, text: str) -> list[int]:
        (ids,) = self.base.prompt_tokenizer.tokens([text])
        return [id for id in ids if id not in self._acting]

    def _prefix(self, text: tuple[int, ...]) -> "KVPrefix":
        if text not in self._prefixes:
            while len(self._prefixes) >= _KEPT_PREFIXES:
                del self._prefixes[next(iter(self._prefixes))]
            self._prefixes[text] = self.base.read(list(text), self._begun) if text else self._begun
        return self._prefixes[text]

    @cached_property
    def _begun(self) -> "KVPrefix":
        return self.base.read(list(self._head))


class Server(NamedTuple):
    """Where a served LM is: the address of its API, up to and with /v1, and its name there."""

    url: str
    model: str

    @property
    def is_on_this_machine(self) -> bool:
        return urlsplit(self.url).hostname in _LOCAL_HOSTS


def server_of(name: str) -> Server | None:
    """The server that a name stands for: `ollama/MODEL` or `URL#MODEL`; None for a hub id or folder.

    Raises ConfigError if an address names no model, or has a key in it.
    """
    if name.startswith(_OLLAMA):
        host = os.environ.get("OLLAMA_HOST")
        url = f"{host if '://' in host else f'http://{host}'}/v1" if host else _OLLAMA_URL
        return Server(url, name.removeprefix(_OLLAMA))
    if not name.startswith(("http://", "https://")):
        return None
    url, _, model = name.partition("#")
    if not model:
        raise ConfigError(
            "A server's address is given without the name of a language model.",
            hint="For example http://localhost:8080/v1#qwen3.",
        )
    return Server(server_url(url), model)


def server_url(typed: str) -> str:
    """The address of a server's API, up to and with /v1. Raises ConfigError if it is none, or has a key in it."""
    address, example = None, "For example http://localhost:8080/v1"
    with suppress(ValueError):
        address = urlsplit(typed)
    if address is None or address.scheme not in ("http", "https") or not address.hostname:
        raise ConfigError(
            "A server's address begins with http:// or https:// and the name of its host.", hint=f"{example}."
        )
    if address.username is not None or address.query or address.fragment:
        raise ConfigError(
            "A server's address is given without a key or query.",
            hint=f"{example}; a key belongs into {KEY_VARIABLE} or {KEY_FILE_VARIABLE}.",
        )
    return typed.rstrip("/")


class ServedChat(ChatLM):
    """An LM behind an HTTP server. Raises ConfigError if the package openai is not installed or there is no such key."""

    def __init__(self, server: Server, name: str) -> None:
        require_extra("llm", "openai", asked_by="A server's language model")
        from openai import OpenAI

        self.name, self._server = name, server
        # The package's own variables, OPENAI_API_KEY above all, are for another server.
        self._client = OpenAI(
            base_url=server.url,
            api_key=server_key() or "none",
            organization="",
            project="",
            timeout=_SECONDS,
            max_retries=1,
        )

    def reply(self, text: str, question: str, *, max_new_tokens: int, on_token: OnToken = None) -> str:
        import openai

        message, server, pieces = f"{text[:_SERVED_CHARACTERS]}\n\n{question}", self._server, []
        try:
            for piece in _without_thoughts(self._pieces(message, max_new_tokens)):
                pieces.append(piece)
                if on_token is not None:
                    on_token(piece)
        except openai.APIError as error:
            match error:
                case openai.APIConnectionError():
                    message = f"No language model replies at {server.url}."
                    hint = "Start its server, or check the address."
                case openai.AuthenticationError():
                    message = f"{server.url} wants a key."
                    hint = f"Set {KEY_VARIABLE}, or {KEY_FILE_VARIABLE} to a file with it."
                case openai.NotFoundError():
                    message, names = f"{server.url} has no language model {server.model}.", models_at(server.url)
                    hint = f"It has {', '.join(names)}." if names else "Check the name after the #."
                case _:
                    message = f"{server.url} refused: {' '.join(str(error).split())[:200]}"
                    hint = "Its own log may say more."
            raise ModelError(message, hint=hint) from error
        return "".join(pieces).strip()

    def _pieces(self, message: str, max_new_tokens: int) -> Iterator[str]:
        stream = self._client.chat.completions.create(
            model=self._server.model,
            messages=[{"role": "user", "content": message}],
            temperature=0,
            max_tokens=max_new_tokens + _THINKING_TOKENS,
            stream=True,
        )
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content


def models_at(url: str, seconds: float = 2.0) -> list[str]:
    """The names of the LMs that a server offers; empty if none answers in time, or it wants a key.

    None is sent: the user's is for one server, not for whatever listens here or is redirected to.
    """
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(f"{url}/models", timeout=seconds) as reply:  # noqa: S310  # the user's own address, http or https
            return models_in(reply.read(_LONGEST_LISTING))
    except (OSError, HTTPException, ValueError):
        return []


def models_in(listing: bytes) -> list[str]:
    """The names of the LMs in a server's listing. Raises ValueError if it is not one."""
    try:
        return sorted(str(model["id"]) for model in json.loads(listing)["data"])
    except (LookupError, TypeError) as error:
        raise ValueError("not a listing of models") from error


def local_models() -> list[str]:
    """The LMs of servers on this machine, as `open_chat` takes them."""
    return [f"{begin}{name}" for begin, url in _LOCAL_SERVERS.items() for name in models_at(url, seconds=0.3)]


def server_key() -> str | None:
    """The key for a server: a secret, so neither an argument nor a setting."""
    if key := os.environ.get(KEY_VARIABLE, "").strip():
        return key
    file = os.environ.get(KEY_FILE_VARIABLE)
    if not file:
        return None
    try:
        return Path(file).expanduser().read_text().strip()
    except (OSError, RuntimeError, UnicodeDecodeError) as error:  # also ~nobody
        raise ConfigError(
            f"{KEY_FILE_VARIABLE}: {file} cannot be read.", hint="Give a text file with the key."
        ) from error


def _without_thoughts(pieces: Iterable[str]) -> Iterator[str]:
    """The pieces of a reply without what an LM thinks aloud in front of it."""
    begun, is_decided = "", False
    for piece in pieces:
        if is_decided:
            yield piece
            continue
        begun += piece
        start = begun.lstrip()
        if start.startswith(_THINKING):
            if "</think>" not in start:
                continue
            begun = THOUGHTS.sub("", begun, count=1)
        elif _THINKING.startswith(start[: len(_THINKING)]):
            continue
        is_decided = bool(begun)
        if begun:
            yield begun
    if not is_decided and not begun.lstrip().startswith(_THINKING):
        yield begun


def open_chat(name: str, *, device: str = "cpu", turns: Sequence[Turn] = ()) -> ChatLM:
    """Open a chat LM: `ollama/MODEL` or `URL#MODEL` of a server, else a hub id or folder, in bfloat16 where that is fast.

    Raises ModelError if it cannot be used, ConfigError for a bad address.
    """
    if (server := server_of(name)) is not None:
        return ServedChat(server, name)
    from mbc_engine.lm.base import load_base
    from mbc_engine.lm.pretrained import is_fast_in_bf16

    base = load_base(name, weights="bf16" if is_fast_in_bf16(device) else "float32", device=device)
    return LocalChat(base, name, turns)

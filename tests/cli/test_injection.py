"""Foreign text is shown and never obeyed: by every command that prints any, in a pipe and on a terminal."""

import json
import re
import shutil
import unicodedata
from dataclasses import replace

import pytest

from mbc_engine.lm.base import BaseLM
from tests.conftest import write_questions
from tests.newswire import OTHERS, TWO

# Colours, titles, links, the clipboard, a cleared screen, the 8-bit start of a sequence, reversed text, markup.
EVIL = "\x1b[38;5;201m\x1b]0;t\x07\x1b]8;;x\x07\x1b]52;c;eA==\x07\x1b[2J\x9b31m\u202e\u2066[red]:smile:\r\b\x7f"
NAME = EVIL.replace("/", "")
# What Rich itself writes to a terminal: styles, and the cursor that it hides and moves for bars.
_RICH = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[[0-9]*[AK]|\r")
_BIDIRECTIONAL = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def obeyed(printed, is_terminal):
    """What a terminal would obey in the output, apart from what Rich itself writes to a terminal."""
    remaining = _RICH.sub("", printed) if is_terminal else printed
    controls = {
        character for character in remaining if unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs")
    } - set("\n\t")
    return controls | _BIDIRECTIONAL & set(remaining) | set(re.findall(r"\x1b\[38;5;201m", printed))


@pytest.fixture(params=["pipe", "terminal"])
def mbc(mbc, request, monkeypatch):
    """`mbc`, with all its output checked."""
    is_terminal = request.param == "terminal"
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")

    def run(*arguments, **options):
        result = mbc(*arguments, **options)
        assert not isinstance(result.exception, UnicodeError)
        assert obeyed(result.stdout, is_terminal) == set(), arguments
        assert obeyed(result.stderr, is_terminal) == set(), arguments
        assert "Traceback" not in result.stderr
        return result

    return run


@pytest.fixture
def evil_bank(make_bank, record):
    """A bank of documents whose names, parts and dates are evil, by a model with an evil name."""
    return make_bank("made.mbc", record(f"/{NAME}", "Ada", EVIL, EVIL), record("/b", EVIL), model=EVIL)


@pytest.fixture
def folder(home):
    """Files with evil names and contents; one of them cannot be read, one is no document."""
    folder = home / NAME
    folder.mkdir()
    (folder / f"{NAME}.txt").write_text(f"Ada moved to {EVIL} Aalen. {EVIL} The river rose.")
    (folder / f"{NAME}.jsonl").write_text(json.dumps({"text": f"Bruno moved. {EVIL}", "id": EVIL, "date": EVIL}) + "\n")
    (folder / f"{NAME}.pdf").write_text(EVIL)
    (folder / f"{NAME}.docx").write_text(EVIL)
    (folder / f"{NAME}.png").touch()
    return folder


@pytest.fixture
def evil_model(model, home):
    """The tiny model in a folder with an evil name, which answers evil things."""
    return shutil.copytree(model, home / f"m{NAME}")


@pytest.fixture(autouse=True)
def evil_answers(monkeypatch):
    def generate(self, prefix, questions, *, on_token=None, **options):
        if on_token:
            for character in EVIL:
                on_token(character)
        return [EVIL] * len(questions)

    monkeypatch.setattr(BaseLM, "generate", generate)


def test_what_would_be_obeyed_is_noticed():
    noticed = obeyed(EVIL, is_terminal=False)
    assert noticed >= {"\x1b", "\x07", "\x08", "\r", "\x7f", "\x9b", "\u202e", "\u2066"}
    assert obeyed(EVIL, is_terminal=True) >= noticed - {"\r"}
    assert obeyed("\x1b[1m\x1b[31mright\x1b[0m\n", is_terminal=True) == set()


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "json"])
def test_banks(mbc, make_bank, evil_bank, record, json):
    digest = record("/b", EVIL).digest
    mbc("bank", "info", "--bank", evil_bank, *json)
    mbc("bank", "list", "--bank", evil_bank, *json)
    mbc("bank", "show", f"/{NAME}", "--bank", evil_bank, *json)
    mbc("bank", "show", digest, "--codes", "--bank", evil_bank, *json)
    mbc("bank", "verify", "--bank", evil_bank, *json)
    mbc("bank", "merge", evil_bank, "--bank", f"{NAME}.mbc", *json)
    mbc("bank", "export", "--bank", evil_bank, *json)
    mbc("bank", "export", f"{NAME}.jsonl", "--bank", evil_bank, *json)
    mbc("bank", "import", f"{NAME}.jsonl", "--bank", f"{NAME}2.mbc", *json, code=3)  # for its date
    undated = make_bank("undated.mbc", record(f"/{NAME}", "Ada", EVIL))
    mbc("bank", "export", f"{NAME}2.jsonl", "--bank", undated, *json)
    mbc("bank", "import", f"{NAME}2.jsonl", "--bank", f"{NAME}2.mbc", *json)
    mbc("bank", "remove", f"/{NAME}", "--prove", "--bank", evil_bank, *json)
    mbc("bank", "compact", "--bank", f"{NAME}.mbc", *json)


def test_documents_and_answers(request, mbc, folder, evil_model, home):
    json = ["--json"] if request.node.callspec.params["mbc"] == "pipe" else []
    bank = home / f"{NAME}.mbc"
    common = ("--bank", bank, "--model", evil_model)
    assert "[red]" in mbc("ingest", folder, *common, "--workers", 0, *json).stdout
    mbc("ask", f"Who moved? {EVIL}", *common, *json)
    mbc("ask", "Who moved?", *common, "--verbose", *json)
    mbc("ask", "--questions", "-", *common, *json, stdin=f"Who? {EVIL}\nWhere?\n".encode())
    mbc("search", f"Who moved? {EVIL}", *common, *json)
    mbc("search", "moved", *common, "--files")
    mbc("bank", "reencode", *common, "--workers", 0, *json)


@pytest.mark.slow
def test_models_and_runs(request, mbc, evil_model, preset, examples, home):
    json = ["--json"] if request.node.callspec.params["mbc"] == "pipe" else []

    def spoilt(example):
        evil = {"text": f"{example.text} {EVIL}", "question": f"{example.question} {EVIL}", "answers": (EVIL,)}
        return replace(example, **evil)

    data = write_questions(home / f"{NAME}.jsonl", map(spoilt, examples(44)))
    mine = home / f"{NAME}.toml"
    shutil.copy(preset, mine)
    mbc("eval", "--model", evil_model, "--data", data, "--limit", 4, *json)
    mbc("calibrate", "--model", evil_model, "--data", data, "--bank-size", 20, "--dry-run", *json)
    mbc("train", "--preset", mine, "--data", data, "--run", f"./{NAME}", "--set", "training.epochs=1", *json)
    mbc("runs", "list", "--runs", home, *json)
    mbc("runs", "show", f"./{NAME}", *json)
    mbc("models", "list", "--runs", home, *json)
    mbc("models", "show", f"./{NAME}", *json)
    mbc("models", "show", evil_model, *json)
    mbc("models", "show", mine, *json)
    mbc("demo", "--model", evil_model, "--keep", f"kept{NAME}", *json)
    config, base = evil_model / "config.toml", "".join(f"\\u{ord(character):04x}" for character in EVIL)
    config.write_text(config.read_text().replace('base = "', f'base = "{base}', 1))
    assert "[red]" in mbc("models", "show", evil_model, *json).stdout


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "json"])
def test_settings(mbc, home, monkeypatch, json):
    config = home / f"{NAME}.toml"
    config.write_text(f"model = {__import__('json').dumps(EVIL)}\n[ask]\nsources = 3\n")
    monkeypatch.setenv("MBC_CONFIG", str(config))
    monkeypatch.setattr("mbc_engine.lm.packaged.damaged_caches", list)  # which reads hundreds of megabytes
    mbc("config", "list", *json)
    mbc("config", "get", "model", *json)
    mbc("config", "path", *json)
    mbc("config", "unset", EVIL, *json, code=2)
    mbc("config", "set", EVIL, EVIL, *json, code=2)
    mbc("config", "set", "model", EVIL, *json, code=2)
    mbc("doctor", "--offline", "--model", EVIL, "--bank", NAME, "--runs", NAME, *json, code=4)
    mbc("ask", "why?", code=2)
    mbc("ask", "--help")
    mbc("config", "unset", "model", *json)
    config.write_text(f"[{__import__('json').dumps(EVIL)}]\n{__import__('json').dumps(EVIL)} = 1")
    mbc("ask", "why?", code=2)
    config.write_text(f"a = [ {EVIL}")
    mbc("ask", "why?", code=2)


@pytest.mark.parametrize(
    "command",
    [
        ["{}"],
        ["--{}"],
        ["bank", "{}"],
        ["ask", "--{}"],
        ["ask", "why?", "--sources", "{}"],
        ["ask", "why?", "--read", "{}"],
        ["ask", "why?", "--since", "{}"],
        ["ask", "why?", "--half-life", "{}"],
        ["ask", "why?", "--bank", "{}"],
        ["ask", "--questions", "{}"],
        ["search", "why?", "--since", "{}"],
        ["ingest", "{}"],
        ["eval", "--data", "{}"],
        ["eval", "--data", "squad:{}"],
        ["eval", "--data", TWO, "--method", "{}"],
        ["eval", "--data", TWO, "--protocol", "{}"],
        ["eval", "--data", TWO, "--golds", "{}"],
        ["eval", "--data", TWO, "--model", "{}"],
        ["eval", "--suite", "{}"],
        ["eval", "--run", "{}"],
        ["eval", "show", "{}"],
        ["calibrate", "--data", "{}"],
        ["train", "--preset", "{}", "--data", OTHERS],
        ["train", "--preset", "smollm2-135m", "--data", "{}"],
        ["train", "--preset", "smollm2-135m", "--data", OTHERS, "--set", "{}"],
        ["train", "--preset", "smollm2-135m", "--data", OTHERS, "--from", "{}"],
        ["train", "--preset", "smollm2-135m", "--data", OTHERS, "--device", "{}"],
        ["train", "--resume", "--run", "{}"],
        ["runs", "show", "{}"],
        ["runs", "stop", "{}"],
        ["demo", "--model", "{}"],
        ["bank", "show", "none{}", "--bank", "made.mbc"],
        ["bank", "remove", "{}", "--bank", "made.mbc"],
        ["bank", "merge", "{}", "--bank", "made.mbc"],
        ["bank", "import", "{}", "--bank", "new.mbc"],
        ["bank", "export", "{}/{}", "--bank", "made.mbc"],
        ["config", "get", "{}"],
    ],
    ids=" ".join,
)
def test_errors(mbc, evil_bank, command):
    result = mbc(*(word.replace("{}", NAME) for word in command), code=None)
    assert result.exit_code in (2, 3, 4, 5)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 2

"""The pages: the site builds, every `mbc` command on a page parses, and `console` and `python` blocks run.

`console` blocks are typed in a shell whose home has a few files and banks. The output shown below a command must be what
it prints; `...` stands for anything. `python` blocks of a page share a namespace; a `text` block shows what the last one
printed. `bash` blocks (installations, long runs, services) are only parsed.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from mbc_cli.app import app
from tests.needs import embedded_encoder

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md", *ROOT.glob("recipes/*/README.md")]
# Console commands that are only parsed: they run until stopped, install or train.
NOT_RUN = r"pip |mbc (tui|train|runs|chat)|mbc ingest .*--watch|mbc .*--model (own|NAME)"
FILES = {
    "news/robots.txt": "The robotics competition in Delft honored Irene Berg for a robot that folds shirts.",
    "notes/ada.txt": "Ada Krummholz repaired the bridge of Aalen in 1954. The river had risen in the spring.",
    "sport/league.md": "# Sport\n\nHaifa leads the league after a 3-1 victory over Izmir.",
    "questions.jsonl": '{"text": "Ada moved to Cadiz.", "question": "Where did Ada move?", "answers": ["Cadiz"]}\n',
}
# PDFium reads a file without a table of its objects.
PDF = b"""%PDF-1.4
1 0 obj <</Type /Catalog /Pages 2 0 R>> endobj 2 0 obj <</Type /Pages /Kids [3 0 R] /Count 1>> endobj
3 0 obj <</Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources <</Font <</F1 5 0 R>>>>>> endobj
4 0 obj <</Length 61>> stream
BT /F1 12 Tf 72 720 Td (The ferry of Cadiz sank in 1898.) Tj ET
endstream endobj 5 0 obj <</Type /Font /Subtype /Type1 /BaseFont /Helvetica>> endobj
trailer <</Size 6 /Root 1 0 R>>
"""


@dataclass(frozen=True)
class Block:
    """A fenced code block: its language, its text, and where it stands."""

    language: str
    text: str
    line: str

    def commands(self):
        """Shell commands, without comments, each with the output shown for it."""
        text = self.text if self.language == "console" else re.sub(r"^(?=[^\s#])", "$ ", self.text, flags=re.MULTILINE)
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            match = re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", part, re.DOTALL)
            assert match
            yield match[1].rstrip(), match[2].strip()


def blocks(page):
    text = page.read_text(encoding="utf-8")
    fences = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(own[1], own[2], f"{page.name}:{text.count(chr(10), 0, own.start()) + 1}") for own in fences]


PROGRAM = typer.main.get_command(app)
COMMANDS = sorted(
    {command for page in PAGES for block in blocks(page) if block.language in ("bash", "console")
     for command, _ in block.commands() if re.search(r"\bmbc(_cli)? ", command)}
)  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse(line):
    words = shlex.split(line, comments=True)
    for number, word in enumerate(words):
        if word in ("mbc", "mbc_cli"):
            rest = words[number + 1 :]
            end = next((place for place, other in enumerate(rest) if other in ("&&", "|", ">")), len(rest))
            parse(rest[:end])


def parse(arguments):
    """Raises a usage error if `mbc` does not take these arguments."""
    command: Any = PROGRAM
    context, name = None, "mbc"
    with contextlib.suppress(click.exceptions.Exit, typer.Exit):  # --list-presets
        while command:
            context = command.make_context(name, list(arguments), parent=context)
            arguments = [*context._protected_args, *context.args] if hasattr(command, "commands") else []
            name, command, arguments = command.resolve_command(context, arguments) if arguments else ("", None, [])


@pytest.mark.slow
def test_site_builds(tmp_path):
    pytest.importorskip("material", reason="the extra dev is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stdout + built.stderr


@dataclass
class Shell:
    """Runs a page's blocks in a home of its own."""

    home: Path
    port: str
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""
    server: "subprocess.Popen[str] | None" = None

    def follow(self, block):
        text = self.adapted(block.text)
        if block.language == "console":
            for command, shown in Block("console", text, block.line).commands():
                if not re.match(NOT_RUN, command):
                    self.type(command, shown, block.line)
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(text, block.line, "exec"), self.names)
            self.printed = printed.getvalue()
        elif block.language == "text" and self.printed:
            assert matches(text, self.printed), f"{block.line}: {self.printed}"

    def type(self, command, shown, line):
        if command.startswith("mbc serve"):
            self.serve(command, shown)
            return
        bash, stdin = ["bash", "-c", command], subprocess.DEVNULL
        ran = subprocess.run(bash, cwd=self.home, stdin=stdin, capture_output=True, text=True)
        everything = ran.stderr + ran.stdout
        assert ran.returncode == 0 or shown.startswith("Error: "), f"{line}: {command}\n{everything}"
        assert not shown or matches(shown, ran.stdout) or matches(shown, everything), f"{line}: {command}\n{everything}"

    def serve(self, command, shown):
        self.stop()
        self.server = subprocess.Popen(
            ["bash", "-c", f"exec {command} --port {self.port} 2>&1"], cwd=self.home, stdout=subprocess.PIPE, text=True
        )
        printed = ""
        while "Ctrl-C stops the server." not in printed:
            line = self.server.stdout.readline()
            assert line, printed
            printed += line
        assert not shown or matches(shown, printed)

    def stop(self):
        if self.server:
            self.server.send_signal(signal.SIGINT)
            self.server.communicate()
        self.server = None

    def adapted(self, text):
        return text.replace("/home/me", str(self.home)).replace("8377", self.port).replace("0.0.0.0", "127.0.0.1")


def matches(shown, printed):
    """Whether this was printed; `...` stands for anything, on its own line for any number of lines."""
    pattern = re.escape(shown.strip() + "\n").replace("\\.\\.\\.\\\n", r"\.\.\.").replace(r"\.\.\.", ".*")
    text = re.sub(r"[ \t]+$", "", printed, flags=re.MULTILINE).strip() + "\n"
    return re.fullmatch(pattern, text, re.DOTALL) is not None


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Where the home of every page is: banks name files by their full paths."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def shell(place, monkeypatch):
    home, programs, untouched = place / "home", place / "programs", place / "untouched"
    shutil.rmtree(home, ignore_errors=True)
    if untouched.exists():
        shutil.copytree(untouched, home)
    for name, value in {
        "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "MBC_READER": "small",
        "MBC_CODEC": "zstd", "PYTHONWARNINGS": "default",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        shell = Shell(home, str(listener.getsockname()[1]))
    if not untouched.exists():
        for name, text in FILES.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        (home / "news" / "old.pdf").write_bytes(PDF)
        programs.mkdir()
        (programs / "mbc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mbc_cli "$@"\n')
        (programs / "mbc").chmod(0o755)
        made = "mbc ingest news sport notes && mbc ingest notes --bank team.mbc && cp team.mbc work.mbc"
        shell.type(made, "", "home")
        shutil.copytree(home, untouched)
    monkeypatch.chdir(home)
    yield shell
    shell.stop()


@pytest.mark.slow
@embedded_encoder
@pytest.mark.parametrize(
    "page", [page for page in PAGES if {"console", "python"} & {own.language for own in blocks(page)}],
    ids=lambda page: page.stem,
)  # fmt: skip
def test_blocks_run(page, shell):
    for block in blocks(page):
        shell.follow(block)

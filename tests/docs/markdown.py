"""Code blocks of a page, and the commands in those that a shell runs."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "recipes/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
)


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        page: relative to the repository.
        line: the number of its first line of text, from 1.
        language: the word after the fence; empty if there is none or the block is indented.
        text: with a newline at its end.
    """

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A shell command of one or more lines, and the output shown for it, None if there is none."""

    text: str
    shown: str | None


def blocks(page: str) -> list[Block]:
    """All code blocks of a page, in order."""
    return [
        Block(page, token.map[0] + 1 + (token.type == "fence"), token.info.strip(), token.content)
        for token in MarkdownIt().parse((ROOT / page).read_text(encoding="utf-8"))
        if token.type in ("fence", "code_block")
    ]


def commands(block: Block) -> list[Command]:
    """The commands of a `bash` block, or of a `console` block, each after a `$` and with the output shown."""
    if block.language == "bash":
        return [Command(text, None) for text in _typed(block.text.splitlines())]
    found = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        first = next(_typed(lines), "")
        shown = "\n".join(lines[first.count("\n") + 1 :])
        found.append(Command(first, shown.strip() or None))
    return found


def _typed(lines: list[str]) -> Iterator[str]:
    """Whole commands, as a shell reads them, without comment lines."""
    command = ""
    for line in lines:
        command += line
        if not _is_whole(command):
            command += "\n"
            continue
        if command.strip() and not command.lstrip().startswith("#"):
            yield command
        command = ""


def _is_whole(command: str) -> bool:
    if command.endswith("\\"):
        return False
    if not re.search(r"""['"(){}]|<<|\b(?:for|while|if|case|do)\b""", command):
        return True
    read = subprocess.run(["bash", "-n", "-c", command], capture_output=True)
    return read.returncode == 0 and not read.stderr

"""Following a page: its code blocks, in order, each run or checked according to its language.

`python` blocks share a namespace. `bash` and `console` blocks are typed in one shell; what a `console` block shows
below a command is compared with what it prints, `...` standing for anything. A `text` block is what the block before it
printed. A `tree` block names files that exist, in the repository or in the reader's home, with capitals for any name.
`toml`, `yaml` and `json` blocks are read by the code that reads such settings.
"""

import contextlib
import io
import json
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
from accelerate.commands.config.config_args import ClusterConfig

from mbc_cli.app import app
from mbc_cli.config import default_map
from mbc_engine.config import parse_config
from mbc_engine.errors import MBCError
from mbc_engine.experiments.settings import parse_settings
from tests.docs.markdown import ROOT, Block, Command, commands
from tests.docs.reader import CTRL_C, CTRL_D, CTRL_Q, CommandResult, Reader

LANGUAGES = frozenset({"python", "bash", "console", "text", "tree", "toml", "yaml", "json"})

# Commands that run until stopped: output that shows they are ready, and the key that ends them.
GOES_ON = {
    r"mbc serve\b": (r"Ctrl-C stops the server\.\n", CTRL_C),
    r"mbc tui\b.*--web": (r"Ctrl-C stops the server\.\n", CTRL_C),
    r"mbc tui\b": (r"Overview", CTRL_Q),
    r"mbc ingest\b.*--watch": (r"Watching for changes; Ctrl-C stops\.\n", CTRL_C),
    r"mbc train --resume\b": (r"step|Training", CTRL_C),
    r"mbc ask\s*(#|$)": (r"\? $", CTRL_D),
}
# What has to run before a command: output that shows it is ready, and the key that ends it.
MEANWHILE = {r"mbc runs pause first": ("mbc train --resume --run first", r"step", CTRL_C)}


@dataclass
class Page:
    """A page that a reader follows.

    Attributes:
        reader: runs the commands.
        only_parsed: patterns of commands whose arguments are parsed, and no more.
        not_typed: patterns of commands that are skipped.
    """

    reader: Reader
    only_parsed: dict[str, str]
    not_typed: dict[str, str]
    _names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    _printed: str = ""

    def follow(self, block: Block) -> None:
        """Run or check a block.

        Raises:
            AssertionError: it fails, or is not true.
        """
        match block.language:
            case "python":
                self._run(block)
            case "bash" | "console":
                self._type(block)
            case "text":
                own = self.reader.own(block.text)
                assert shows(own, self._printed), f"{block.place}: this was printed:\n{self._printed}"
            case "tree":
                self._find(block)
            case "toml":
                _read(block)
            case "yaml":
                (self.reader.home / "page.yaml").write_text(block.text)
                ClusterConfig.from_yaml_file(str(self.reader.home / "page.yaml"))
            case "json":
                self._start_servers(block)

    def _run(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + self.reader.own(block.text), block.page, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self._names)
        self._printed = printed.getvalue()

    def _type(self, block: Block) -> None:
        self._printed = ""
        for command in commands(block):
            if named(self.not_typed, command):
                continue
            ran = self._typed(command)
            self._printed += ran.stdout
            fails_as_shown = "Error: " in (command.shown or "")
            assert ran.status == 0 or fails_as_shown, f"{block.place}: {command.text}\n{ran.status}: {ran.everything}"
            if command.shown is not None and not named(self.only_parsed, command):
                shown = self.reader.own(command.shown)
                assert shows(shown, ran.stdout) or shows(shown, ran.everything), (
                    f"{block.place}: {command.text}\n{ran.everything}\nis not what is shown:\n{shown}"
                )

    def _typed(self, command: Command) -> CommandResult:
        typed = self.reader.own(command.text)
        if named(self.only_parsed, command):
            return self.reader.type(typed, only_parsed=True)
        if meanwhile := named(MEANWHILE, command):
            self.reader.start(*meanwhile)
        if signs := named(GOES_ON, command):
            return self.reader.start(typed, *signs)
        return self.reader.type(typed)

    def _find(self, block: Block) -> None:
        above: list[tuple[int, str]] = [(-1, "")]
        for line in block.text.splitlines():
            indent = len(line) - len(line.lstrip())
            while above[-1][0] >= indent:
                above.pop()
            folder = above[-1][1]
            names = re.match(r"(?:[\w.*/-]+(?:/|\.\w+),?(?:\s+|$))+", line.strip())
            assert names, f"{block.place}: no file is named in {line!r}"
            for name in names[0].replace(",", " ").split():
                path = re.sub(r"\b[A-Z]{2,}\b", "*", folder + name)
                found = any(ROOT.glob(path)) or any(self.reader.home.rglob(path))
                assert found, f"{block.place}: there is no {path}"
                if name.endswith("/"):
                    above.append((indent, path))

    def _start_servers(self, block: Block) -> None:
        """Check that what an assistant's settings start does start, and ends with its input."""
        for server in json.loads(self.reader.own(block.text))["mcpServers"].values():
            ran = self.reader.type(shlex.join([server["command"], *server["args"]]))
            assert ran.status == 0, f"{block.place}: {ran.everything}"


def named(table: dict[str, Any], command: Command) -> Any:
    """A table's entry for a command: that of the first pattern it begins with."""
    return next((value for pattern, value in table.items() if re.match(pattern, command.text)), None)


def shows(shown: str, printed: str) -> bool:
    """Whether this was printed, where `...` stands for anything and, on its own line, for any number of lines.

    Trailing spaces and surrounding empty lines are ignored.
    """
    own, text = (re.sub(r"[ \t]+$", "", part, flags=re.MULTILINE).strip("\n") + "\n" for part in (shown, printed))
    lines = re.sub(r"^\\\.\\\.\\\.(\\\n|\n)", r"(?:.*\\n)??", re.escape(own), flags=re.MULTILINE)
    return re.fullmatch(lines.replace(r"\.\.\.", ".*?"), text, re.DOTALL) is not None


def _read(block: Block) -> None:
    """Settings of the program, of a suite, or of a model."""
    faults = []
    for read in (_settings, parse_settings, parse_config):
        try:
            read(block.text, block.place)
        except MBCError as error:
            faults.append(error.message)
        else:
            return
    raise AssertionError("\n".join([f"{block.place}: nothing reads this.", *faults]))


def _settings(text: str, origin: str) -> None:
    default_map(typer.main.get_command(app), tomllib.loads(text), Path(origin))

"""Draws the screenshots of docs/dashboard.md: the dashboard on real ingests and training runs.

    python docs/dashboard/screenshots.py --runs DIR             the runs `reset` and `no-reset` of an evaluation by
                                                                `mbc eval --suite smollm2`: its folder `prepared`
    python docs/dashboard/screenshots.py --runs DIR --keep DIR  keeps the bank shown, and reuses it next time

Needs the embedded encoder (the extra `embedded`).
"""

import argparse
import asyncio
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
RECIPE = HERE.parents[1] / "recipes/newswire/generate.py"
QUESTIONS = (
    "Who opened the festival in Silverton?",
    "What did tickets cost there?",
    "Why is the Acosta Bridge closed?",
)


@dataclass(frozen=True)
class Picture:
    """A screenshot: the view of that name, and the keys pressed before it is taken."""

    name: str
    keys: Sequence[str] = ()
    questions: Sequence[str] = ()


SIZE = (160, 45)
PICTURES = (
    Picture("overview"),
    Picture("codes"),
    Picture("train", keys=("c", "enter")),
    Picture("ingest"),
    Picture("ask", questions=QUESTIONS),
    Picture("documents"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, metavar="DIR", required=True, help="the training runs shown")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where to keep the bank shown")
    parser.add_argument("--only", metavar="NAME", action="append", help="draw only this picture; can be repeated")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = (options.keep or Path(folder)).absolute()
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "runs").exists():
            shutil.copytree(options.runs, home / "runs")
        for name in ("DATA", "STATE", "CONFIG", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = str(home / name.lower())
        os.environ["HOME"] = str(home)  # keeps real paths out of the pictures
        os.chdir(home)
        prepare(home)
        for picture in PICTURES:
            if not options.only or picture.name in options.only:
                asyncio.run(draw(home, picture))


def prepare(home: Path) -> None:
    """Ingest stories in four goes."""
    if not (home / "news.mbc").exists():
        told = list(runpy.run_path(str(RECIPE))["stories"]("test", 400, seed=5))
        for end in (60, 150, 320, 400):
            for story in told[:end]:
                file = home / "news" / story.id[-1] / f"{story.id}.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{story.title}\n\n{story.text}\n", encoding="utf-8")
            (home / "news" / "scan.pdf").write_bytes(b"%PDF-1.7 cut off")
            mbc("ingest", "news", "--bank", "news.mbc", "--codec", "zstd")
            time.sleep(20)  # spreads the ingests out on the time axis


def mbc(*arguments: str) -> None:
    """Run a command."""
    subprocess.run([sys.executable, "-m", "mbc_cli", "--quiet", *arguments], check=True, stdout=subprocess.DEVNULL)


async def draw(home: Path, picture: Picture) -> None:
    """Open the dashboard, wait for what the picture should show, and save it."""
    from mbc_cli.tui.app import Dashboard
    from mbc_cli.tui.state import DashboardOptions

    app = Dashboard(DashboardOptions(home / "news.mbc", "mini", home / "runs", home / "runs" / "reset"), picture.name)
    async with app.run_test(size=SIZE) as pilot:
        app.theme = "textual-dark"
        await until(lambda: app.state.bank and app.state.run and app.state.run.history.finished)
        await asyncio.sleep(2)
        for number, question in enumerate(picture.questions, 1):
            await pilot.press(*(("space" if letter == " " else letter) for letter in question), "enter")
            await until(lambda number=number: len(app.state.transcript) == number)
        await pilot.press(*picture.keys)
        await asyncio.sleep(2)
        svg = app.export_screenshot(title="mbc tui")
    # The fonts would be loaded from the web; any monospaced one will do.
    svg = re.sub(r"@font-face\s*{.*?}", "", svg, flags=re.DOTALL)
    (HERE / f"{picture.name}.svg").write_text(svg, encoding="utf-8")
    print(HERE / f"{picture.name}.svg")


async def until(condition: Callable[[], object]) -> None:
    """Wait until another thread makes the condition true."""
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the dashboard did not show the expected state in time")
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()

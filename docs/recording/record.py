"""Draws docs/recording/mbc.svg: real commands and what they write, which appears command by command.

    python docs/recording/record.py         a minute on two cores

The files are the stories of `mbc demo`. Needs the embedded encoder (the extra `embedded`).
"""

import os
import re
import subprocess
import sys
import tempfile
from bisect import bisect
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent / "mbc.svg"
WIDTH = 80
COMMANDS = (
    "mbc ingest stories",
    'mbc ask "How many people helped Jerome Lopez in the campaign?" --sources 1',
    'mbc ask "Who saved the pigeons in Bramblehaven?" --sources 1',
    "mbc bank remove stories/07-family-business-in.txt --prove",
)
# For reading what a command writes.
SECONDS = 5


def main() -> None:
    screen = Console(record=True, width=WIDTH, file=StringIO())
    begins = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
            "FORCE_COLOR": "1",
            "COLUMNS": str(WIDTH),
            "MBC_BANK": "news.mbc",
        }
        demo = ["mbc", "--quiet", "demo", "--keep", "demo"]
        subprocess.run(demo, cwd=home, env=environment, check=True, stdout=subprocess.DEVNULL)
        (home / "demo" / "stories").rename(home / "stories")
        for command in COMMANDS:
            begins.append(screen.export_text(clear=False).count("\n"))
            screen.print(Text(f"$ {command}"))
            ran = subprocess.run(["bash", "-c", command], cwd=home, env=environment, capture_output=True, check=True)
            screen.print(Text.from_ansi("\n".join(line.rstrip() for line in ran.stdout.decode().splitlines())))
    title = f"mbc, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores"
    PICTURE.write_text(animated(screen.export_svg(title=title), begins), encoding="utf-8")
    print(PICTURE)


def animated(svg: str, begins: list[int]) -> str:
    """Let the lines of each command appear after those of the one before; all stay for reduced motion.

    Args:
        svg: a picture by rich.
        begins: the first line of each command.
    """
    count = len(begins) + 1
    steps = [
        f"@keyframes c{number}{{0%{{opacity:0}}{number / count:.3%}{{opacity:1}}}}"
        f".c{number}{{animation:c{number} {count * SECONDS}s step-end infinite}}"
        for number in range(1, len(begins))
    ]
    still = "@media (prefers-reduced-motion:reduce){text{animation:none!important}}"
    # The fonts would be loaded from the web; any monospaced one will do.
    svg = re.sub(r"@font-face\s*{.*?}", "", svg, flags=re.DOTALL)
    svg = svg.replace("</style>", "\n".join([*steps, still, "</style>"]))
    return re.sub(
        r'<text class="([^"]*)"(?=[^>]*-line-(\d+)\))',
        lambda text: f'<text class="{text[1]} c{bisect(begins, int(text[2])) - 1}"',
        svg,
    )


if __name__ == "__main__":
    main()

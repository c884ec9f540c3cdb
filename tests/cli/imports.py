"""What commands import."""

import subprocess
import sys
from collections.abc import Collection, Sequence


def imported_by(commands: Sequence[Sequence[str]], among: Collection[str]) -> str:
    """The modules among these that were imported once a new process had run the commands, as a list; none may fail."""
    script = (
        "import sys; from mbc_cli.app import app\n"
        f"for arguments in {commands!r}:\n"
        "    try: app(arguments)\n"
        "    except SystemExit as end: assert not end.code, arguments\n"
        f"print(sorted({set(among)!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1]

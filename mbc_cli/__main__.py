"""The entry point of `mbc` and `python -m mbc_cli`."""

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress


def main() -> None:
    """Run the program. Ctrl-C while it loads leaves no traceback."""
    gc.disable()  # imports create no garbage
    try:
        from mbc_cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)  # as shells report it after Ctrl-C
    gc.enable()
    try:
        run()
    except SystemExit as ended:
        _leave_at_once(ended.code)
        raise


def _leave_at_once(code: object) -> None:
    """End the process without tearing down torch module by module, which takes 0.2 s."""
    is_alone = all(thread is threading.current_thread() or thread.daemon for thread in threading.enumerate())
    if "torch" not in sys.modules or not is_alone or not isinstance(code, int | None):
        return
    atexit._run_exitfuncs()  # noqa: SLF001  # no public API runs them
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":  # the file-reading processes import this module too
    main()

"""The program's entry: `mbc`, and `python -m mbc_cli`."""

import sys

# What a shell says of a program that Ctrl-C ended.
_INTERRUPTED = 130


def main() -> None:
    """Run the program. Ctrl-C in the moment it takes to load leaves no traceback."""
    try:
        from mbc_cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(_INTERRUPTED)
    run()


if __name__ == "__main__":  # the processes that read files import this module too
    main()

"""Runs several commands of mbc in one process, because a model is slow to import.

The hub's library is imported first, with the environment of programs that use the engine without `mbc`.
"""

import json
import sys

import huggingface_hub  # noqa: F401

from mbc_cli.app import main

if __name__ == "__main__":  # the processes that read files import this module too
    for arguments in json.loads(sys.argv[1]):
        sys.argv = ["mbc", *arguments]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
        print(f"<{arguments[0]} ended>", flush=True)

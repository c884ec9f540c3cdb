"""`mbc` and `python` in a reader's shell: asks the warm process (`warm.py`) for one, and stands in for it."""

import json
import os
import signal
import socket
import sys


def main(address: str, *arguments: str) -> int:
    """Run what `arguments` name, with the streams, folder, environment and signals of this process; its exit code."""
    folder = os.getcwd()  # noqa: PTH109  # pathlib takes longer to import than all of this
    request = json.dumps({"arguments": arguments, "folder": folder, "environment": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX) as warm:
        warm.connect(address)
        socket.send_fds(warm, [len(request).to_bytes(4, "big")], [0, 1, 2])
        warm.sendall(request)
        process = int.from_bytes(warm.recv(4), "big")
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(process, number))
        status = warm.recv(4)
    return int.from_bytes(status, "big") if status else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

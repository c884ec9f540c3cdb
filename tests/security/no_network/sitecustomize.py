"""Python imports this at the start of every process that has its folder on PYTHONPATH: no process may use a network.

A process that tries writes what it tried into the file that SEEN_NETWORK names, and ends.
"""

import os
import socket
import sys
import traceback
from pathlib import Path

_NAMES = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
_SOCKETS = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")
# Processes of one machine talk through these, asyncio's own loop among them.
_LOCAL = (socket.AF_UNIX,)


def _look(event: str, arguments: tuple[object, ...]) -> None:
    if event in _NAMES or (event in _SOCKETS and getattr(arguments[0], "family", None) not in _LOCAL):
        with Path(os.environ["SEEN_NETWORK"]).open("a") as seen:
            print(event, *arguments[event in _SOCKETS :], file=seen)
            traceback.print_stack(file=seen)
        os._exit(97)


sys.addaudithook(_look)

"""A process that has loaded torch and forks into the programs of a reader's shell, since loading it takes 5 s.

Each is a process of its own, as in a real shell, with streams, folder, environment and signals of whoever asked
(`shim.py`). With MBC_ONLY_PARSED in its environment it ends once it has parsed its arguments.
"""

import argparse
import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib.metadata import metadata
from pathlib import Path

ONLY_PARSED = "MBC_ONLY_PARSED"


def serve(address: str) -> None:
    """Fork for every request, until stdin is closed."""
    _warm_up()
    gc.freeze()  # the collector would otherwise touch, and so copy, all of it in every fork
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("warm", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:  # whoever started this has ended
                return
            asking, _ = listener.accept()
            if os.fork() == 0:
                break
            asking.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(asking, 4, 3)
    request = json.loads(asking.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    if process := os.fork():
        asking.sendall(process.to_bytes(4, "big"))
        _, status = os.waitpid(process, 0)
        with suppress(BrokenPipeError):  # who asked is gone
            asking.sendall((os.waitstatus_to_exitcode(status) & 0xFF).to_bytes(4, "big"))
        os._exit(0)
    asking.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    # Python's stream objects describe the original streams, above all whether they are terminals.
    sys.stdin = sys.__stdin__ = open(0)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w")  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1)  # noqa: SIM115
    _end(_status_of(request["arguments"]))


def run(arguments: list[str]) -> None:
    """Run a program in this process."""
    match arguments:
        case ["mbc", *_]:
            sys.argv = arguments
            _mbc()
        case ["python", "-m", module, *rest]:
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["python", script, *rest]:
            if ONLY_PARSED in os.environ:
                parse = argparse.ArgumentParser.parse_args
                argparse.ArgumentParser.parse_args = lambda parser, *given: (parse(parser, *given), sys.exit())
            sys.argv = [script, *rest]
            sys.path.insert(0, str(Path(script).resolve().parent))
            runpy.run_path(script, run_name="__main__")
        case ["torchrun", *rest]:
            from torch.distributed.run import get_args_parser

            _launched(get_args_parser().parse_args(rest))
        case ["accelerate", "launch", *rest]:
            from accelerate.commands.launch import launch_command_parser

            _launched(launch_command_parser().parse_args(rest))
        case ["pip", "install", *rest]:
            _install(rest)
        case _:
            sys.exit(f"no program of a reader: {arguments}")


def _status_of(arguments: list[str]) -> int:
    try:
        run(arguments)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(status: int) -> None:
    """Exit, but leave tearing down what was loaded, which takes 2 s, to the system."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError):
            stream.flush()
    os._exit(status)


def _warm_up() -> None:
    import transformers  # noqa: F401
    from transformers import AutoModelForCausalLM  # noqa: F401


def _mbc() -> None:
    from mbc_cli.__main__ import main
    from mbc_cli.program import Command, Group

    if ONLY_PARSED in os.environ:
        descend = Group.invoke
        Command.invoke = lambda command, context: None
        Group.invoke = lambda group, context: descend(group, context) if context._protected_args else None
    if sys.argv[1:2] == ["models"]:
        _play_hub()
    main()


def _play_hub() -> None:
    """Simulate the hub with the reader's shared folder; what is pushed is visible to this process only."""
    from tests.sharing.fake_hub import FakeHub

    FakeHub(tempfile.mkdtemp() if "push" in sys.argv else Path.home() / "shared" / "models").install()


def _launched(launcher: argparse.Namespace) -> None:
    """Run what a launcher would start, in this process."""
    assert launcher.module
    assert launcher.training_script == "mbc_cli"
    run(["mbc", *launcher.training_script_args])


def _install(arguments: list[str]) -> None:
    """Install nothing, but check that the requested constraints and extras exist."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-c", type=argparse.FileType())
    parser.add_argument("-e", "--editable")
    parser.add_argument("-r", type=argparse.FileType())
    parser.add_argument("--no-deps", action="store_true")
    parser.add_argument("--require-hashes", action="store_true")
    parser.add_argument("packages", nargs="*")
    asked = parser.parse_args(arguments)
    for package in filter(None, (asked.editable, *asked.packages)):
        name, _, extras = package.rstrip("]").partition("[")
        assert name in (".", "mbc"), package
        assert set(filter(None, extras.split(","))) <= set(metadata("mbc").get_all("Provides-Extra")), package


if __name__ == "__main__":  # the processes that read files import this module too
    serve(*sys.argv[1:])

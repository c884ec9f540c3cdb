"""Follow an ingest: its progress, skipped files and why, and a Ctrl-C that loses nothing.

    python examples/follow.py [FOLDER]

Stopping saves the documents encoded so far; running again skips those already in the bank.
"""

import signal
import sys
import threading
from pathlib import Path

from mbc_engine import Memory
from mbc_engine.events import DocumentsIngested, FileSkipped, IngestFinished, IngestStarted

NEWS = Path(__file__).parent / "news"


def main(folder: Path) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    size = 1
    with Memory(Path("followed.mbc")) as memory:
        for event in memory.add([folder], stop=stop):
            match event:
                case IngestStarted():
                    size = max(1, event.size)
                    print(f"{event.files} files, {event.size:,} bytes")
                case DocumentsIngested():
                    print(f"{event.size / size:4.0%}  {event.documents} documents, {event.unchanged} unchanged")
                case FileSkipped():
                    print(f"{event.source!r} {event.reason!r}")
                case IngestFinished(is_complete=True):
                    print(f"done: {event.bank_documents} documents take {event.code_bytes:,} bytes of codes")
                case IngestFinished():
                    print("stopped; run this again to continue")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else NEWS)

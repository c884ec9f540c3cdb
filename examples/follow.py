"""Follow an ingest: its progress, what was left out and why, and a Ctrl-C that loses nothing.

    python examples/follow.py [FOLDER]

Stopped, it saves the documents that are encoded; run again, it passes over what the bank has.
"""

import signal
import sys
import threading
from pathlib import Path

from mbc_engine import ingest, load_model, open_bank
from mbc_engine.events import DocumentsIngested, FileSkipped, IngestFinished, IngestStarted

NEWS = Path(__file__).parent / "news"


def main(folder: Path) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    model, size = load_model("mini"), 1
    with open_bank(model, Path("followed.mbc")) as bank:
        for event in ingest(model, bank, [folder], stop=stop):
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
                    print("stopped; run this again to go on")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else NEWS)

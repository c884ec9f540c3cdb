"""mbc beside other local memories: the same texts, questions and encoder (MiniLM), each tool by its documented defaults.

    python benchmarks/peers.py --data ../shared/data/qa/squad_val.jsonl.xz [--texts 402] [--questions 400]
        [--tools "mbc search,mbc ask,txtai,chroma,leann"]
        [--venvs FOLDER]

Data are lines of JSON with `text`, `question` and `answers`. Each tool is installed, at the versions below, into a
virtual environment of its own in `--venvs`, and runs in processes of its own. Prints a table: how often the text that the
question was asked about comes first and among the first five, bytes a text on the disk, seconds to index them with
imports, and for one question: after another in the same process, in a new one, and that one's peak memory. mbc is there
twice, by `search` and by `ask`, which reads the texts found. A tool that fails is in the table with the reason.
"""

import argparse
import importlib.metadata
import json
import lzma
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).parents[1]
# What is installed for each; the first package's version is named.
PACKAGES: Final = {
    "txtai": ("txtai==9.14.0",),
    "chroma": ("chromadb==1.5.9", "sentence-transformers==6.2.0"),
    "leann": ("leann==0.3.7", "sentence-transformers==6.2.0"),
}
_FIVE: Final = 5
_SECONDS: Final = 1800.0  # for one step, at most
Search = Callable[[str], list[str]]  # the ids of the best texts for a question


def _txtai(folder: Path, minilm: str, texts: Sequence[str] | None) -> Search:
    from txtai import Embeddings

    if texts is not None:
        made = Embeddings(path=minilm, hybrid=True, content=True)
        made.index((str(number), text, None) for number, text in enumerate(texts))
        made.save(str(folder / "index"))
    index = Embeddings()
    index.load(str(folder / "index"))
    return lambda question: [found["id"] for found in index.search(question, _FIVE)]


def _chroma(folder: Path, minilm: str, texts: Sequence[str] | None) -> Search:
    import chromadb
    from chromadb.utils.embedding_functions import SentenceTransformerEmbeddingFunction

    client = chromadb.PersistentClient(path=str(folder), settings=chromadb.Settings(anonymized_telemetry=False))
    encode: Any = SentenceTransformerEmbeddingFunction(model_name=minilm)
    collection = client.get_or_create_collection("texts", embedding_function=encode)
    for start in range(0, len(texts or ()), 1000):
        part = (texts or ())[start : start + 1000]
        collection.add(ids=[str(number) for number in range(start, start + len(part))], documents=list(part))
    return lambda question: collection.query(query_texts=[question], n_results=_FIVE)["ids"][0]


def _leann(folder: Path, minilm: str, texts: Sequence[str] | None) -> Search:
    from leann import LeannBuilder, LeannSearcher

    path = str(folder / "texts.leann")
    if texts is not None:
        builder = LeannBuilder(backend_name="hnsw", embedding_model=minilm, embedding_mode="sentence-transformers")
        for number, text in enumerate(texts):
            builder.add_text(text, metadata={"number": str(number)})
        builder.build_index(path)
    searcher = LeannSearcher(path)
    return lambda question: [found.metadata["number"] for found in searcher.search(question, top_k=_FIVE)]


def _mbc(folder: Path, texts: Sequence[str] | None, *, asks: bool) -> Search:
    from mbc_engine import Memory, load_model

    rows, bank = folder.with_suffix(".jsonl"), folder / "texts.mbc"
    memory = Memory(bank, load_model("mini"))
    if texts is not None:
        lines = (json.dumps({"id": str(number), "text": text}) for number, text in enumerate(texts))
        rows.write_text("".join(f"{line}\n" for line in lines))
        for _ in memory.add([rows]):
            pass
    if asks:
        return lambda question: [source.part for source in memory.ask([question], sources=_FIVE)[0].sources]
    return lambda question: [source.part for source in memory.search([question], top=_FIVE)[0]]


TOOLS: Final[dict[str, Callable[[Path, str, Sequence[str] | None], Search]]] = {
    "mbc search": lambda folder, _, texts: _mbc(folder, texts, asks=False),
    "mbc ask": lambda folder, _, texts: _mbc(folder, texts, asks=True),
    "txtai": _txtai,
    "chroma": _chroma,
    "leann": _leann,
}


def index(tool: str, folder: Path, minilm: str, given: dict[str, Any]) -> dict[str, Any]:
    """In the tool's process: index the texts."""
    began = time.perf_counter()
    TOOLS[tool](folder, minilm, given["texts"])
    return {"index": time.perf_counter() - began}


def ask(tool: str, folder: Path, minilm: str, given: dict[str, Any]) -> dict[str, Any]:
    """In another: ask the questions, the first of which is not timed."""
    search = TOOLS[tool](folder, minilm, None)
    ranks, seconds = [], []
    for question, number in given["questions"]:
        began = time.perf_counter()
        found = search(question)
        seconds.append(time.perf_counter() - began)
        ranks.append(found.index(str(number)) if str(number) in found else _FIVE)
    package = "mbc" if tool.startswith("mbc") else PACKAGES[tool][0].partition("==")[0]
    return {
        "first": sum(rank == 0 for rank in ranks) / len(ranks),
        "five": sum(rank < _FIVE for rank in ranks) / len(ranks),
        "warm": statistics.median(seconds[1:]),
        "version": importlib.metadata.version(package),
    }


def cold(tool: str, folder: Path, minilm: str, given: dict[str, Any]) -> dict[str, Any]:
    """In a third: one question."""
    TOOLS[tool](folder, minilm, None)(given["questions"][0][0])
    peaks = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"memory": 1024 * sum(peaks)}


def _python(tool: str, venvs: Path) -> str:
    """The Python of a tool's virtual environment, made at first use."""
    if tool.startswith("mbc"):
        return sys.executable
    python = venvs / tool / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venvs / tool)], check=True)
        # The tested torch, which needs no gigabytes for a GPU.
        install = ["-m", "pip", "install", "-q", "-c", str(_ROOT / "constraints.txt"), *PACKAGES[tool]]
        subprocess.run([python, *install], check=True)
    return str(python)


def _in_process(python: str, step: str, *arguments: str) -> tuple[dict[str, Any], float]:
    command = [python, str(Path(__file__)), "--step", step, *arguments]
    # pip has compiled the other tools: mbc, run from a checkout, must be able to keep what is compiled too.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return made, seconds


def measure(tool: str, venvs: Path, given: Path, folder: Path) -> dict[str, Any]:
    """All figures of a tool, or its `error`."""
    from mbc_engine.lm.packaged import MINILM, locate

    try:
        python = _python(tool, venvs)
        arguments = (tool, str(folder), str(locate(MINILM)), str(given))
        folder.mkdir()
        figures, _ = _in_process(python, "index", *arguments)
        figures["bytes"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        figures |= _in_process(python, "ask", *arguments)[0]
        peak, figures["cold"] = _in_process(python, "cold", *arguments)
    except subprocess.TimeoutExpired as error:
        return {"error": f"did not end in {error.timeout:.0f} seconds"}
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return {"error": str(error)[:200]}
    return figures | peak


def table(results: dict[str, dict[str, Any]], texts: int) -> str:
    head = "| | first | in five | bytes a text | to index | a question, warm | cold | peak memory |\n|---|" + 7 * "---|"
    rows = []
    for tool, figures in results.items():
        if "error" in figures:
            rows.append(f"| {tool} | {figures['error']} |" + 6 * " |")
            continue
        cells = (
            f"{tool} {figures['version']}",
            *(f"{100 * figures[name]:.1f}%" for name in ("first", "five")),
            f"{figures['bytes'] / texts:,.0f}",
            f"{figures['index']:.0f} s",
            f"{1e3 * figures['warm']:.0f} ms",
            f"{figures['cold']:.1f} s",
            f"{figures['memory'] / 1e6:,.0f} MB",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([head, *rows])


def main() -> None:
    """Run each tool, or, with `--step`, one step of one in its process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="lines of JSON with text, question and answers, may be .xz")
    parser.add_argument("--texts", type=int, default=402)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--venvs", type=Path, default=Path(tempfile.gettempdir()) / "mbc-peers")
    parser.add_argument("--step", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        step, tool, folder, minilm, given = args.step
        work = {"index": index, "ask": ask, "cold": cold}[step]
        print(json.dumps(work(tool, Path(folder), minilm, json.loads(Path(given).read_text()))))
        return
    data = args.data.read_bytes()
    rows = [json.loads(line) for line in (lzma.decompress(data) if args.data.suffix == ".xz" else data).splitlines()]
    texts = list(dict.fromkeys(row["text"] for row in rows))[: args.texts]
    asked = [(row["question"], texts.index(row["text"])) for row in rows if row["text"] in set(texts)]
    asked = random.Random(7).sample(asked, min(args.questions, len(asked)))
    results = {}
    with tempfile.TemporaryDirectory() as room:
        given = Path(room, "given.json")
        given.write_text(json.dumps({"texts": texts, "questions": asked}))
        for tool in args.tools.split(","):
            results[tool] = measure(tool, args.venvs, given, Path(room, tool.replace(" ", "-")))
            print(f"{tool}: {results[tool]}", file=sys.stderr, flush=True)
    today = datetime.now(UTC).date()
    print(
        f"{len(texts):,} texts, {len(asked):,} questions, seed 7; {today}, {platform.processor() or platform.machine()}.\n"
    )
    print(table(results, len(texts)))


if __name__ == "__main__":
    main()

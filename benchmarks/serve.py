"""Requests per second and latencies of `mbc serve` with many clients, in batches and one request at a time.

    python benchmarks/serve.py [--seconds 20] [--clients 1 8 32] [--json FILE]

Starts the real server with the embedded model on a bank of generated news, twice: with batches of up to 16 waiting
requests, and with one request at a time. Clients send four questions per document, each request as soon as the last is
answered. Clients and server share the machine; other programs running at the same time distort the figures. Prints a
table.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import mean
from typing import Any, Final

import httpx
import numpy as np
from measuring import newswire

STORIES: Final = 64
BATCHES: Final = (16, 1)
QUESTIONS_A_DOCUMENT: Final = 4


@contextmanager
def running_server(folder: Path, batch: int) -> Iterator[str]:
    """Run a server of mini with an empty bank; yields its address."""
    command = [sys.executable, "-m", "mbc_cli", "serve", "--quiet", "--port", "0", "--batch", str(batch)]
    process = subprocess.Popen(
        [*command, "--bank", str(folder / f"{batch}.mbc")], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        if process.wait():
            raise SystemExit(f"The server exited with code {process.returncode}.")


async def load(url: str, clients: int, seconds: float, stories: list[Any], numbers: "count[int]") -> dict[str, Any]:
    """Requests per second, batch size and latencies for some clients over some seconds."""
    latencies: defaultdict[str, list[float]] = defaultdict(list)
    batch_sizes: list[int] = []
    until = time.perf_counter() + seconds

    async def ask(http: httpx.AsyncClient, number: int) -> httpx.Response:
        content = stories[number % len(stories)].question
        body = {"model": "mini", "messages": [{"role": "user", "content": content}]}
        return await http.post(f"{url}/chat/completions", json=body)

    async def add(http: httpx.AsyncClient, number: int) -> httpx.Response:
        text = stories[number % len(stories)].text
        return await http.post(f"{url}/documents", json={"name": f"more {number}", "text": f"{text} ({number})"})

    async def client(http: httpx.AsyncClient) -> None:
        while time.perf_counter() < until:
            number = next(numbers)
            kind, send = ("document", add) if number % (QUESTIONS_A_DOCUMENT + 1) == 0 else ("question", ask)
            began = time.perf_counter()
            response = await send(http, number)
            response.raise_for_status()
            latencies[kind].append(time.perf_counter() - began)
            if kind == "question":
                batch_sizes.append(response.json()["mbc"]["together"])

    async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=clients)) as http:
        began = time.perf_counter()
        await asyncio.gather(*(client(http) for _ in range(clients)))
        spent = time.perf_counter() - began
    return {
        "clients": clients,
        "requests_per_second": sum(map(len, latencies.values())) / spent,
        "together": mean(batch_sizes),
        **{
            kind: {"requests": len(times), "median": float(np.median(times)), "p99": float(np.quantile(times, 0.99))}
            for kind, times in latencies.items()
        },
    }


def measure(folder: Path, batch: int, clients: list[int], seconds: float) -> list[dict[str, Any]]:
    """Start one server with this batch size and load it with each number of clients."""
    stories = list(newswire()["examples"](newswire()["stories"]("test", STORIES)))
    numbers = count(1)
    with running_server(folder, batch) as url, httpx.Client(timeout=300) as http:
        texts = [{"text": story.text, "name": story.id} for story in stories]
        for start in range(0, len(texts), 64):
            http.post(f"{url}/documents", json=texts[start : start + 64]).raise_for_status()
        asyncio.run(load(url, 1, 2.0, stories, numbers))  # warm-up: the first answers load what is loaded lazily
        return [{"batch": batch, **asyncio.run(load(url, number, seconds, stories, numbers))} for number in clients]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="duration of the load with each number of clients")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found: list[dict[str, Any]] = []
        for batch in BATCHES:
            found += measure(Path(folder), batch, arguments.clients, arguments.seconds)
    print("| batch | clients | requests/s | questions per batch | question, median | 99th | document, median | 99th |")
    print("|---:" * 8 + "|")
    for row in found:
        cells = [f"{1000 * row[kind][name]:,.0f} ms" for kind in ("question", "document") for name in ("median", "p99")]
        figures = f"{row['requests_per_second']:.1f} | {row['together']:.1f} | {' | '.join(cells)}"
        print(f"| {row['batch']} | {row['clients']} | {figures} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

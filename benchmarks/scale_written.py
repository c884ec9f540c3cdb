"""What docs/scale.md says of a memory past one machine, from what was measured."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from keeping import Result
from scale_banks import TOP
from scale_constants import QUESTIONS
from scale_projection import (
    CHUNKS,
    DAY,
    NODES,
    Measured,
    Network,
    Node,
    Projected,
    Wanted,
    confused,
    line_through,
    projected,
)
from wording import table

from mbc_engine.ingestion.run import BATCH_CHUNKS

MILLION: Final = 1_000_000
BLOCK: Final = 8192  # chunks of a block of a bank with sources
TITLES: Final = {"paper": "the paper's, 13.5 bytes", "mini": "mini's, 27 bytes and text"}


def size(number: float) -> str:
    """Three figures and a unit."""
    for unit, worth in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= worth:
            return f"{number / worth:.3g} {unit}"
    return f"{number:.3g} B"


def span(seconds: float) -> str:
    """Three figures and a unit, from microseconds to days."""
    for unit, worth in (("days", DAY), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * worth:
            return f"{seconds / worth:,.3g} {unit}"
    for unit, worth in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= worth:
            return f"{seconds / worth:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def measured_of(found: dict[str, Result], name: str) -> Measured:
    """The constants of a form."""
    own, asked = found[f"bank {name}"], found[f"nodes {name}"]
    weigh, whole, small = own["weigh"], own["scan"], own["small"]
    scan, fixed = line_through((small["chunks"], small["seconds"]), (whole["chunks"], whole["seconds"]))
    cold = max(0.0, whole["cold"] - whole["seconds"]) / whole["chunks"]
    rows = found["shards mini"] if name == "mini" else found["shards paper"]["routed"]
    words = rows[-1].get("words", 0.0)  # ranking again by them, in one place
    return Measured(
        disk=weigh["sources_bytes"],
        lean_disk=weigh["lean_bytes"],
        touched=whole["touched"] / whole["chunks"] or weigh["sources_bytes"],
        scan=scan,
        fixed=fixed + words,
        cold=scan + cold,
        texts=TOP * weigh["text_bytes"],
        unfold=whole["unfold"] if name == "mini" else 0.0,
        looked_at=TOP if name == "mini" else 0,
        block=BLOCK,
        asked=asked["asked_bytes"],
        answered=asked["answered_bytes"],
        merge=(rows[-1]["merge"] - words) / rows[-1]["shards"],
        index=own["write"]["index_bytes"] / whole["chunks"],
        encode=found["encode"]["seconds"],
    )


def written(found: dict[str, Result]) -> Iterator[str]:
    """All that is measured and projected."""
    yield from one_bank(found)
    yield from shards(found)
    yield from between(found)
    measured = {name: measured_of(found, name) for name in ("paper", "mini")}
    yield from projections(found, measured)
    yield from answers(found)


def one_bank(found: dict[str, Result]) -> Iterator[str]:
    """What one bank costs."""
    paper, mini = found["bank paper"], found["bank mini"]
    chunks = paper["scan"]["chunks"]
    yield from ["", "### One bank, one core", ""]
    yield (
        f"{chunks:,.0f} chunks of made-up codes, a chunk a document, with sources; times are the least of some runs, "
        "for a million chunks unless said otherwise. *From disk*: the page cache emptied of the file before, once; a "
        "virtual disk below may have a cache of its own. A scan reads codes and, of a bank with sources, the hashes "
        "and keys that lie before the lengths of documents; it reads no text. The text is generated news, some 800 "
        "characters a chunk."
    )
    scans = [paper["scan"], mini["scan"]]

    def each(form: Any, figure: str, times: float = MILLION) -> list[str]:
        return [form(times * own[figure] / own["chunks"]) if own[figure] else "" for own in scans]

    def both(form: Any, part: str, figure: str, times: float = 1.0) -> list[str]:
        return [form(times * own[part][figure]) for own in (paper, mini)]

    rates = [f"{1 / own:,.0f}" for own in (found["make paper"]["append"], found["make mini"]["append"])]
    merges = [f"{1 / own['write']['merge']:,.0f}" for own in (paper, mini)]
    rows = [
        ["bytes a chunk, with sources", *both(lambda own: f"{own:.1f}", "weigh", "sources_bytes")],
        ["bytes a chunk, without", *both(lambda own: f"{own:.1f}", "weigh", "lean_bytes")],
        ["of them text", *both(lambda own: f"{own:.1f}", "weigh", "text_bytes")],
        ["counts, once a bank", *both(size, "weigh", "counts_bytes")],
        ["a question's scan", *each(span, "seconds")],
        [f"{QUESTIONS} questions in one scan, each", *each(span, "batch", MILLION / QUESTIONS)],
        ["a question's scan from disk", *each(span, "cold")],
        ["of the file, a scan reads", *each(size, "touched")],
        ["a scan's own memory, whatever the size", *[size(own["grown"]) for own in scans]],
        ["the codes of a chunk, or its text", *both(span, "scan", "unfold")],
        ["opening, whatever the size", *[span(own["opening"]) for own in scans]],
        ["a writer's look for the first name", *both(span, "write", "index", MILLION / chunks)],
        ["the memory that takes", *both(size, "write", "index_bytes", MILLION / chunks)],
        [f"a commit of {BATCH_CHUNKS} chunks", *both(span, "write", "commit")],
        ["adding, chunks a second", *rates],
        ["`mbc bank merge`, chunks a second", *merges],
    ]
    yield from table(["", *TITLES.values()], rows)
    encode = found["encode"]
    flat = found["flat read"]
    yield (
        f"Encoding with mini takes {span(encode['seconds'])} a chunk of {encode['tokens']:.0f} tokens on one core, "
        f"{1 / encode['seconds']:.1f} chunks a second: that is the ingest, whatever the bank. The flat read of the "
        f"paper's codes takes {span(flat['flat'])} of any bank, naming its sources {span(flat['sources'])} for these "
        f"chunks, the hierarchical read with groups of 256 {span(MILLION * flat['hierarchical'])} a million chunks."
    )


def shards(found: dict[str, Result]) -> Iterator[str]:
    """The simulation."""
    yield from ["", "### The same documents in shards", ""]
    yield (
        "The bank cut into S banks, each scanned by the code that scans one bank, one after another on one core; S "
        "nodes would take as long as the slowest, and the merge (`Ranking.extend`: the best few of each shard with the "
        "logarithm of what all its chunks weigh, so that shares stay shares of the whole). Checked in each row: the "
        "scores of all chunks equal the whole bank's bit for bit, and so do chunks, order and ties of the best "
        f"{TOP}; *off* is by how much a share differs at most, relatively, where float32 sums of other blocks "
        "round otherwise."
    )
    paper, mini, unfold = found["shards paper"], found["shards mini"], found["bank mini"]["scan"]["unfold"]
    yield from ["", "**Routed**, the paper's codes:"]
    yield from shard_table(paper["routed"])
    yield (
        "**Mini's own search**, in two rounds: codes are scanned everywhere, and the texts of the best "
        f"{TOP} chunks of all come from where these lie, to be ranked again by their words in one place. The whole "
        f"bank's search, encoding the question included, took {span(mini[0]['whole'])}; the {TOP} chunks lie in as "
        f"many blocks, where a bank has them, and to read a text of one takes {span(unfold)}. The whitening, "
        f"{span(mini[0]['whitening'])}, is found once, where questions are encoded."
    )
    yield from shard_table(mini)
    yield (
        "**Flat**: the counts of the shards add up to the whole's, so that the read is the same bit for bit: "
        f"{span(max(row['sum'] for row in paper['flat']))} at most to add them. Naming its sources is a scan with the "
        "whole's counts:"
    )
    yield from shard_table(paper["flat"])
    rows = found["shards hierarchical"]
    yield (
        "**Hierarchical**, groups of 4 among 256 chunks: a node combines its groups, and groups of groups as far as "
        "they are full; one place combines the rest. The result is the whole's bit for bit where groups do not cross "
        "shards."
    )
    yield from shard_table(rows)


def shard_table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row for each number of shards."""
    whole = rows[0]["slowest"] + rows[0]["merge"]
    body = [
        [
            str(row["shards"]),
            span(row["slowest"]),
            span(row["merge"]),
            f"{whole / (row['slowest'] + row['merge']):.1f}",
            f"{row['difference']:.0e}" if row["difference"] else "0",
        ]
        for row in rows
    ]
    yield from table(["S", "slowest shard", "merge", "times as fast", "off"], body, words=0)


def between(found: dict[str, Result]) -> Iterator[str]:
    """What processes send each other."""
    yield from ["", "### Between processes", ""]
    two, four = found["all-reduce 2"], found["all-reduce 4"]
    weigh = {name: found[f"bank {name}"]["weigh"]["counts_bytes"] for name in ("paper", "mini")}
    yield (
        "On this machine, over loopback. An all-reduce of counts (gloo): the paper's "
        f"{size(weigh['paper'])} take {span(two['paper'])} between two processes and {span(four['paper'])} between "
        f"four, mini's {size(weigh['mini'])} {span(two['mini'])} and {span(four['mini'])}."
    )
    rows = []
    for name in ("paper", "mini"):
        own = found[f"nodes {name}"]
        rows.append(
            [
                TITLES[name],
                span(own["alone"]),
                span(own["scanned"]),
                span(own["sent_back"]),
                size(own["asked_bytes"]),
                size(own["answered_bytes"]),
            ]
        )
    yield ""
    yield (
        "One round of a routed question over TCP, to processes that hold a shard each: what codes are worth goes out, "
        f"the best {TOP} come back and are merged."
    )
    head = ["codes", "one process", "two, half each", "of it, way and merge", "to a process", "back"]
    yield from table(head, rows)


def projections(found: dict[str, Result], measured: dict[str, Measured]) -> Iterator[str]:
    """The tables of all sizes."""
    node, network, wanted = Node(), Network(), Wanted()
    yield from ["", "### Projected", ""]
    yield (
        "**Assumed**, not measured: nodes of this machine's cores, "
        f"{node.cores} each, with {size(node.memory)} of memory and {size(node.disk)} of disk; "
        f"{network.bits / 1e9:.0f} Gb/s and {span(network.round_trip)} a round trip between them; mini's time of "
        "encoding for all, spread over all cores; scans that get as much faster as there are cores (two cores: see "
        "above). **Wanted**: a question's chunks within "
        f"{span(wanted.question)}, everything ingested within {span(wanted.ingest)}. Everything else follows from this "
        "run. Sizes and times are of one node; *memory* keeps its scans off the disk. *16 cores* scan a shard each. "
        "*Network* is of one question, the merge included. What *breaks*, the worst first, is judged by one core a "
        "node, as mbc scans today; *index* is what a writer holds in memory to know what there is."
    )
    for name, own in measured.items():
        yield from ["", f"**{TITLES[name][0].upper()}{TITLES[name][1:]} a chunk, routed:**"]
        rows = [
            projected_row(projected(own, chunks, nodes, node, network, wanted)) for chunks in CHUNKS for nodes in NODES
        ]
        head = ["chunks", "nodes", "disk", "no sources", "memory", "1 core", "16 cores", "1 core, disk", "network"]
        yield from table([*head, "ingest", "breaks"], rows, words=0)
    flat = found["flat read"]
    batch = BATCH_CHUNKS * found["bank mini"]["weigh"]["code_bytes"]
    counts = {name: found[f"bank {name}"]["weigh"]["counts_bytes"] for name in ("paper", "mini")}
    yield (
        f"**Flat**: {span(flat['flat'])} a question for any number of chunks and nodes, from the summed counts; its "
        "sources, where they are asked for, are a scan as above. **Hierarchical**: "
        f"{span(1e9 * flat['hierarchical'])} for 1e9 chunks on one core, {span(1e9 * flat['hierarchical'] / 1024)} on "
        "all cores of 64 nodes: for small memories, or parts of one."
    )
    yield ""
    yield (
        "**An ingest's network**: nodes that ingest into a shard of their own send nothing but, where the flat read "
        f"wants it, the change of their counts: {size(counts['paper'])} or {size(counts['mini'])} a commit, "
        f"{span(network.seconds(2 * counts['mini']))} for mini's in an all-reduce. Nodes that encode for one bank "
        f"elsewhere send {size(batch)} of mini's codes for {BATCH_CHUNKS} chunks, {span(network.seconds(batch))}; "
        f"encoding them takes one core {span(BATCH_CHUNKS * found['encode']['seconds'])}."
    )
    yield ""
    collisions = ", ".join(f"{confused(chunks):.2g} at {chunks:.0e}".replace("e+0", "e") for chunks in CHUNKS)
    yield (
        "**Without sources** a document is known by six bytes of its hash. Pairs expected to be taken for one, of "
        f"which the second is not stored, in one bank: {collisions} documents; on 64 nodes, spread at random, "
        f"{confused(1e9, 64):.2g} at 1e9."
    )


def projected_row(row: Projected) -> list[str]:
    """A row of the tables of sizes."""
    return [
        f"{row.chunks:.0e}".replace("e+0", "e"),
        str(row.nodes),
        size(row.disk),
        size(row.lean_disk),
        size(row.memory),
        span(row.question),
        span(row.spread),
        span(row.cold),
        f"{size(row.network_bytes)}, {span(row.network)}" if row.nodes > 1 else "",
        span(row.ingest),
        ", ".join(row.broken) or "nothing",
    ]


def answers(found: dict[str, Result]) -> Iterator[str]:
    """What breaks, and what to do."""
    paper, mini = found["bank paper"]["scan"], found["bank mini"]["scan"]
    several = [span(MILLION * one["batch"] / one["chunks"] / QUESTIONS) for one in (paper, mini)]
    single = [span(MILLION * one["seconds"] / one["chunks"]) for one in (paper, mini)]
    rows = [
        [
            "question",
            (
                f"many questions in one scan: {several[0]} and {several[1]} each of {QUESTIONS}, {single[0]} and "
                f"{single[1]} alone, a million chunks"
            ),
            "there: `mbc ask` with a file of questions",
        ],
        ["", "a bank for each month or subject, and only those asked", "there: `--bank` once or several times"],
        ["", "more shards at the same time, on cores and nodes", "merge there (`Ranking.extend`); scanning them not"],
        [
            "",
            "inverted lists over the codes: scanning some hundredth of the chunks",
            "not built; no longer exact",
        ],
        [
            "index: a writer's memory",
            "shards: each writer knows its own",
            "there: a bank each, `mbc bank merge` at the end",
        ],
        ["disk", "`--no-sources`; more nodes", "there"],
        ["six-byte hashes", "sources, which keep 16 bytes; several banks", "there"],
        ["ingest", "more machines and GPUs", "there, below; encoding on GPUs is not measured here"],
        ["questions at once", "replicas: a bank is one file that any number of readers may copy", "nothing hands out"],
        ["a node that fails", "the same, and a list of what lies where", "not built"],
    ]
    yield from ["", "### What breaks, and what helps", ""]
    yield from table(["what breaks", "what helps", "in mbc"], rows, words=3)

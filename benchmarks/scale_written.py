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
    return Measured(
        disk=weigh["sources_bytes"],
        lean_disk=weigh["lean_bytes"],
        touched=whole["touched"] / whole["chunks"] or weigh["sources_bytes"],
        scan=scan,
        fixed=fixed,
        cold=scan + cold,
        texts=TOP * weigh["text_bytes"],
        unfold=whole["unfold"] if name == "mini" else 0.0,
        looked_at=TOP if name == "mini" else 0,
        block=BLOCK,
        asked=asked["asked_bytes"],
        answered=asked["answered_bytes"],
        merge=rows[-1]["merge"] / rows[-1]["shards"],
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
        f"{chunks:,.0f} chunks with random codes, one per document, with sources. Times are the best of several runs, "
        "for a million chunks unless noted. *From disk*: after emptying the page cache of the file once; a virtual "
        "disk may have a cache of its own. A scan reads codes and, in a bank with sources, hashes and keys; it reads "
        "no text. The text is generated news, about 800 characters a chunk."
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
        ["of which text", *both(lambda own: f"{own:.1f}", "weigh", "text_bytes")],
        ["counts, per bank", *both(size, "weigh", "counts_bytes")],
        ["scan for a question", *each(span, "seconds")],
        [f"{QUESTIONS} questions in one scan, per question", *each(span, "batch", MILLION / QUESTIONS)],
        ["scan for a question, from disk", *each(span, "cold")],
        ["bytes read by a scan", *each(size, "touched")],
        ["memory of a scan, for any size", *[size(own["grown"]) for own in scans]],
        ["reading a chunk's codes or text", *both(span, "scan", "unfold")],
        ["opening, for any size", *[span(own["opening"]) for own in scans]],
        ["first look-up of a name by a writer", *both(span, "write", "index", MILLION / chunks)],
        ["memory for that", *both(size, "write", "index_bytes", MILLION / chunks)],
        [f"a commit of {BATCH_CHUNKS} chunks", *both(span, "write", "commit")],
        ["adding, chunks a second", *rates],
        ["`mbc bank merge`, chunks a second", *merges],
    ]
    yield from table(["", *TITLES.values()], rows)
    encode = found["encode"]
    flat = found["flat read"]
    yield (
        f"Encoding with mini takes {span(encode['seconds'])} per chunk of {encode['tokens']:.0f} tokens on one core, "
        f"{1 / encode['seconds']:.1f} chunks a second, and dominates any ingest. The flat read of the paper's codes "
        f"takes {span(flat['flat'])} for any bank, naming its sources {span(flat['sources'])} for these chunks, the "
        f"hierarchical read with groups of 256 {span(MILLION * flat['hierarchical'])} for a million chunks."
    )


def shards(found: dict[str, Result]) -> Iterator[str]:
    """The simulation."""
    yield from ["", "### The same documents in shards", ""]
    yield (
        "The bank is cut into S banks, scanned one after another on one core by the code that scans one bank; S "
        "nodes would take as long as the slowest, plus the merge. In each row the scores of all "
        f"chunks equal the whole bank's bit for bit, as do chunks, order and ties of the best {TOP}; *off* is the "
        "largest relative difference of a share, from float32 sums in another order."
    )
    paper, mini, unfold = found["shards paper"], found["shards mini"], found["bank mini"]["scan"]["unfold"]
    yield from ["", "**Routed**, the paper's codes:"]
    yield from shard_table(paper["routed"])
    yield (
        f"**Mini's own search**, in two rounds: the chunks with the question's words are looked up and counted everywhere; "
        f"then codes are scanned. The whole bank's search, encoding the question included, took "
        f"{span(mini[0]['whole'])}; the best {TOP} chunks are in as many blocks if a bank has them, and reading a text of "
        f"one takes {span(unfold)}. The whitening, {span(mini[0]['whitening'])}, is computed once, "
        "where questions are encoded."
    )
    yield from shard_table(mini)
    yield (
        "**Flat**: the counts of the shards add up to the whole's, so the read is the same bit for bit; adding them takes "
        f"{span(max(row['sum'] for row in paper['flat']))} at most. Naming its sources is a scan with the whole's "
        "counts:"
    )
    yield from shard_table(paper["flat"])
    rows = found["shards hierarchical"]
    yield (
        "**Hierarchical**, groups of 4 among 256 chunks: a node combines its groups, and groups of groups as far as "
        "they are full; one place combines the rest. The result is the whole's bit for bit if no group crosses "
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
    yield from table(["S", "slowest shard", "merge", "speedup", "off"], body, words=0)


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
        "One round of a routed question over TCP, to processes that hold a shard each: look-up tables of scores go out, "
        f"the best {TOP} chunks come back and are merged."
    )
    head = ["codes", "one process", "two, half each", "of which transfer and merge", "to a process", "back"]
    yield from table(head, rows)


def projections(found: dict[str, Result], measured: dict[str, Measured]) -> Iterator[str]:
    """The tables of all sizes."""
    node, network, wanted = Node(), Network(), Wanted()
    yield from ["", "### Projected", ""]
    yield (
        f"**Assumed**, not measured: nodes with {node.cores} cores like this machine's, {size(node.memory)} of memory and "
        f"{size(node.disk)} of disk; {network.bits / 1e9:.0f} Gb/s and {span(network.round_trip)} per round trip "
        "between them; mini's encoding time for all, spread over all cores; scans that scale with the cores (two "
        f"cores: see above). **Goals**: a question's chunks within {span(wanted.question)}, everything ingested within "
        f"{span(wanted.ingest)}. The rest follows from this run. Sizes and times are per node; *memory* keeps its scans "
        "off the disk. *16 cores* scan a shard each. *Network* is for one question, including the merge. *Breaks* lists "
        "what exceeds its limit, worst first, with one core a node, as mbc scans today; *index* is what a writer holds "
        "in memory to recognise documents."
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
        f"**Flat**: {span(flat['flat'])} a question for any number of chunks and nodes, from the summed counts; naming "
        f"sources is a scan as above. **Hierarchical**: {span(1e9 * flat['hierarchical'])} for 1e9 chunks on one core, "
        f"{span(1e9 * flat['hierarchical'] / 1024)} on all cores of 64 nodes: for small memories, or parts of one."
    )
    yield ""
    yield (
        "**Network of an ingest**: nodes that ingest into their own shard send only the change of their counts for flat "
        f"reads: {size(counts['paper'])} or {size(counts['mini'])} a commit, {span(network.seconds(2 * counts['mini']))} "
        f"for mini's in an all-reduce. Nodes that encode for a bank elsewhere send {size(batch)} of mini's codes for "
        f"{BATCH_CHUNKS} chunks, {span(network.seconds(batch))}; encoding them takes one core "
        f"{span(BATCH_CHUNKS * found['encode']['seconds'])}."
    )
    yield ""
    collisions = ", ".join(f"{confused(chunks):.2g} at {chunks:.0e}".replace("e+0", "e") for chunks in CHUNKS)
    yield (
        "**Without sources** a document is identified by six bytes of its hash. Expected collisions, of which the second "
        f"document is not stored, in one bank: {collisions} documents; on 64 nodes, spread at random, "
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
                f"{QUESTIONS} questions in one scan: {several[0]} and {several[1]} each, {single[0]} and "
                f"{single[1]} alone, for a million chunks"
            ),
            "`mbc ask` with a file of questions",
        ],
        ["", "a bank per month or subject, asking only some", "`--bank`, once or several times"],
        ["", "more shards in parallel, on cores and nodes", "the merge (`Ranking.extend`), not the parallel scan"],
        [
            "",
            "inverted lists over the codes: scanning about a hundredth of the chunks",
            "not built; no longer exact",
        ],
        [
            "index: a writer's memory",
            "shards: each writer knows only its own",
            "a bank each, `mbc bank merge` at the end",
        ],
        ["disk", "`--no-sources`; more nodes", "yes"],
        ["six-byte hashes", "sources, which keep 16 bytes; several banks", "yes"],
        ["ingest", "more machines and GPUs", "yes, below; encoding on GPUs is not measured here"],
        ["questions at once", "replicas: a bank is one file that readers may copy", "no distribution of questions"],
        ["a node that fails", "replicas, and a list of what is where", "not built"],
    ]
    yield from ["", "### Limits and remedies", ""]
    yield from table(["limit", "what helps", "in mbc"], rows, words=3)

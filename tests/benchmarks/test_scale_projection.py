"""Projections of a memory past one machine, by hand."""

from dataclasses import replace

import pytest
from scale_projection import Measured, Network, Node, Wanted, confused, line_through, projected

MEASURED = Measured(
    disk=40,
    lean_disk=20,
    touched=30,
    scan=1e-6,
    fixed=0.001,
    cold=3e-6,
    texts=0,
    unfold=0,
    looked_at=0,
    block=10,
    asked=900,
    answered=100,
    merge=0.0001,
    index=16,
    encode=0.5,
)
NODE = Node(cores=4, memory=1e6, disk=1e6)
NETWORK = Network(bits=8e6, round_trip=0.01)
WANTED = Wanted(question=1.0, ingest=1e6)


def test_one_node_has_no_network() -> None:
    one = projected(MEASURED, 10_000, 1, NODE, NETWORK, WANTED)
    assert (one.disk, one.lean_disk, one.memory) == (400_000, 200_000, 300_000)
    assert one.question == pytest.approx(0.001 + 0.01 + 0.0001)
    assert one.spread == pytest.approx(0.001 + 0.0025 + 0.0001)
    assert one.cold == pytest.approx(one.question + 0.02)
    assert (one.network_bytes, one.ingest) == (0, 1250.0)


def test_nodes_share_chunks_and_pay_for_what_they_send() -> None:
    four = projected(MEASURED, 10_001, 4, NODE, NETWORK, WANTED)
    assert four.disk == 2501 * 40  # the fullest one
    assert four.network_bytes == 4 * 1000
    assert four.network == pytest.approx(0.01 + 4000 / 1e6 + 4 * 0.0001)
    assert four.question == pytest.approx(0.001 + 0.002501 + four.network)


def test_a_second_round_reads_texts_in_blocks_that_are_spread_evenly_and_sends_them_back() -> None:
    mini = replace(MEASURED, texts=5000, unfold=0.05, looked_at=64)
    two = projected(mini, 10_000, 2, NODE, NETWORK, WANTED)
    assert two.network_bytes == 2 * 1000 + 5000
    assert two.network == pytest.approx(2 * 0.01 + 7000 / 1e6 + 2 * 0.0001)
    assert two.question == pytest.approx(0.001 + 0.005 + 32 * 0.05 + two.network)
    few = projected(mini, 30, 1, NODE, NETWORK, WANTED)
    assert few.question == pytest.approx(0.001 + 30e-6 + 3 * 0.05 + 0.0001)  # there are but three blocks


@pytest.mark.parametrize(
    ("chunks", "changed", "broken"),
    [
        (10_000, {}, []),
        (30_000, {}, ["disk"]),
        (30_000, {"touched": 50}, ["memory", "disk"]),
        (30_000, {"index": 100}, ["index", "disk"]),
        (30_000, {"scan": 1e-4}, ["question", "disk"]),
        (30_000, {"encode": 1000}, ["ingest", "disk"]),
    ],
)
def test_what_breaks_is_named_in_the_order_of_its_excess(
    chunks: int, changed: dict[str, float], broken: list[str]
) -> None:
    assert projected(replace(MEASURED, **changed), chunks, 1, NODE, NETWORK, WANTED).broken == broken


def test_two_sizes_say_what_a_chunk_takes_and_what_none_take() -> None:
    assert line_through((100, 3.0), (300, 5.0)) == pytest.approx((0.01, 2.0))
    assert line_through((100, 5.0), (300, 5.0)) == (0.0, 5.0)
    assert line_through((100, 1.0), (200, 4.0)) == (pytest.approx(0.03), 0.0)  # noise is no negative time


def test_hashes_of_48_bits_confuse_pairs_of_one_node() -> None:
    assert confused(3) == 3 / 2**48
    assert confused(4, 2) == 2 / 2**48
    assert confused(1e9) == pytest.approx(1776, abs=1)

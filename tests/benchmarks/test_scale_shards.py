"""Documents in shards are found as in one bank; that scores, counts and order agree, the benchmark itself asserts."""

from pathlib import Path

import pytest
import scale_banks
import scale_shards
from scale import BEGIN, END, renewed

pytestmark = pytest.mark.slow

NUMBERS = (1, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("banks")
    for name in ("paper", "mini"):
        scale_banks.make(name, 512, str(folder), NUMBERS)
    return str(folder)


def test_routed_scans_of_shards_merge_to_that_of_the_whole(folder: str) -> None:
    rows = scale_shards.routed("paper", folder, NUMBERS)
    assert [row["shards"] for row in rows] == [1, 4]
    assert max(row["difference"] for row in rows) < 1e-6


def test_the_two_rounds_of_mini_find_what_its_own_search_finds(folder: str) -> None:
    assert max(row["difference"] for row in scale_shards.passages(folder, NUMBERS)) < 1e-6


def test_counts_of_shards_add_up_and_attention_finds_the_same_sources(folder: str) -> None:
    assert max(row["difference"] for row in scale_shards.flat(folder, NUMBERS)) < 1e-6


def test_groups_of_nodes_combine_to_the_hierarchy_of_the_whole() -> None:
    assert [row["difference"] for row in scale_shards.hierarchical(16, NUMBERS)] == [0, 0]


def test_a_missing_shard_is_noticed(folder: str, tmp_path: Path) -> None:
    (tmp_path / "paper-1").symlink_to(Path(folder) / "paper-1")
    (tmp_path / "paper-4").mkdir()
    for place, own in enumerate((0, 1, 2, 2)):
        scale_banks.path_of(str(tmp_path), "paper", 4, place).symlink_to(scale_banks.path_of(folder, "paper", 4, own))
    with pytest.raises(AssertionError):
        scale_shards.routed("paper", str(tmp_path), NUMBERS)


def test_a_page_keeps_what_stands_around_the_marks() -> None:
    page = f"# At scale\n\n{BEGIN}\n\nold\n\n{END}\n\n## Ingest\n"
    assert renewed(page, "new\n") == f"# At scale\n\n{BEGIN}\n\nnew\n\n{END}\n\n## Ingest\n"
    assert renewed(renewed(page, "new"), "newer") == renewed(page, "newer")

"""Banks of a Ray cluster: the same answers as in one process, and those of the rest if an actor ends."""

from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import ray

from mbc_engine import Memory, Selection, ingest, open_bank
from mbc_engine.errors import BankError, ConfigError
from mbc_engine.ingestion.ray import connected
from mbc_engine.shards import Shards

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

QUESTIONS = ["Who moved to Haifa?", "amber harbour", "When did Irene leave?", "Who was there in March 2021?"]
OPTIONS = ({}, {"selection": Selection(exclude=("*3.txt",))}, {"selection": Selection(half_life=30.0)})


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with connected():
        yield


@pytest.fixture(scope="module")
def model(tiny):
    return tiny.retriever_reader("Haifa")


@pytest.fixture(scope="module")
def paths(model, tmp_path_factory):
    """Three banks."""
    folder = tmp_path_factory.mktemp("banks")
    texts = ("Ada moved to Haifa.", "An amber light, a harbour.", "Irene left.")
    for bank in ("0", "1", "2"):
        (folder / bank).mkdir()
        for number in range(5):
            text = f"{texts[number % 3]} Story {bank}{number}.\n" * (1 + number)
            (folder / bank / f"2021-03-{number + 10}-{number}.txt").write_text(text)
        with open_bank(model, folder / f"{bank}.mbc") as made:
            list(ingest(model, made, [folder / bank]))
    return [folder / f"{bank}.mbc" for bank in ("0", "1", "2")]


def on_cluster(path):
    return Path(f"localhost:{path}")


def results(memory, **options):
    """Answers and passages, whatever the banks are called."""
    answers = memory.ask(QUESTIONS, with_codes=True, **options)
    lists = [*(answer.sources for answer in answers), *memory.search(QUESTIONS, top=9, **options)]
    found = [[replace(source, bank="") for source in sources] for sources in lists]
    return [(answer.text, answer.confidence, answer.totals, answer.missing_banks) for answer in answers], found


def test_answers_are_those_of_one_process(model, paths):
    mixed = [on_cluster(paths[0]), paths[1], on_cluster(paths[2])]
    with Memory(mixed, model) as memory, Memory(paths, model) as here:
        for options in OPTIONS:
            assert results(memory, **options) == results(here, **options)
        assert memory.info()[1] == here.info()[1]
        (source,) = memory.search(["Irene left. Story 22."], top=1)[0]
    assert source.bank in map(str, mixed)


def test_models_of_the_papers_method(tiny, tmp_path):
    model, banks = tiny.model("gpt2", "bert", "model.routing=true"), [tmp_path / "a.mbc", tmp_path / "b.mbc"]
    for number, path in enumerate(banks):
        (tmp_path / f"{number}.txt").write_text(f"Ada won race {number}. " * 30)
        with open_bank(model, path) as bank:
            list(ingest(model, bank, [tmp_path / f"{number}.txt"]))
    with Memory(list(map(on_cluster, banks)), model) as memory, Memory(banks, model) as here:
        for read_mode, options in product(("flat", "hierarchical:2", "routed:2"), OPTIONS[::2]):
            assert results(memory, read_mode=read_mode, **options) == results(here, read_mode=read_mode, **options)


def test_the_rest_answers_if_an_actor_ends(model, paths):
    shards = Shards(list(map(on_cluster, paths)))
    with shards, Memory(shards, model) as memory, Memory([paths[0], paths[2]], model) as rest:
        memory.ask(QUESTIONS)
        ray.kill(shards._actors[str(on_cluster(paths[1]))])
        answers, found = results(memory)
        of_rest, found_in_rest = results(rest)
        missing = (str(on_cluster(paths[1])),)
        assert (answers, found) == ([(*answer[:3], missing) for answer in of_rest], found_in_rest)
        for name in list(shards._actors):
            ray.kill(shards._actors[name])
        with pytest.raises(BankError, match="No actor answers"):
            memory.search(QUESTIONS)


def test_a_machine_that_is_not_there(model, paths):
    with Memory([Path("nowhere:/b.mbc"), on_cluster(paths[0])], model) as memory, Memory(paths[0], model) as here:
        (answer,), (expected,) = memory.ask(QUESTIONS[:1]), here.ask(QUESTIONS[:1])
        assert (answer.missing_banks, memory.missing_banks) == (("nowhere:/b.mbc",),) * 2
        assert answer.text == expected.text
    with pytest.raises(BankError, match="No bank at /no"), Memory(Path("localhost:/no.mbc"), model) as memory:
        memory.open()
    with pytest.raises(ConfigError, match="weighted"), Memory([on_cluster(paths[0])], model, weights=[2]) as memory:
        memory.open()
    with pytest.raises(ConfigError, match="only read"), suppress(StopIteration):
        next(iter(Memory(on_cluster(paths[0]), model).add([paths[0]])))


def test_changes_are_seen_and_a_snapshot_holds(model, paths, tmp_path):
    (tmp_path / "a.txt").write_text("Hugo won.")
    bank_path = tmp_path / "b.mbc"
    with open_bank(model, bank_path) as bank:
        list(ingest(model, bank, [tmp_path / "a.txt"]))
        with Shards([on_cluster(paths[0]), on_cluster(bank_path)]) as shards:
            before, version = shards.totals().documents, shards.version()
            with shards.snapshot():
                (tmp_path / "b.txt").write_text("Hugo lost.")
                list(ingest(model, bank, [tmp_path / "b.txt"]))
                assert shards.totals().documents == before
            assert shards.totals().documents == before + 1
            assert shards.version() != version
            assert not shards.is_replaced()
            (tmp_path / "a.txt").unlink()
            (found,) = Memory(shards, model).search(["Hugo won."], top=1)
            assert [(source.state, source.passage) for source in found] == [("unknown", "Hugo won.")]

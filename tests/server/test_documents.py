"""Documents that clients send: in files first, then in the bank, and gone from both."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mbc_cli.asker import Asker
from mbc_cli.server.document_folder import DocumentFolder, Text
from mbc_cli.server.memory import Adding, Memory, Removing
from mbc_engine import ingest, open_bank
from mbc_engine.bank import MemoryBank
from mbc_engine.documents import reader
from mbc_engine.errors import BankError
from mbc_engine.model.mbc import MBC


def names(bank: Path = Path("b.mbc")) -> list[str]:
    """What the bank has, by name."""
    with MemoryBank.open(bank, read_only=True) as memory:
        return sorted(origin.part or Path(origin.source).name for origin in memory.origins())


async def test_what_was_answered_is_in_the_bank_and_in_a_file(serving: Callable[..., Any], home: Path) -> None:
    running = serving()
    response = await running.add({"text": "Ada moved to Aalen.", "name": "ada", "date": "1989-05-03"})
    assert response.status_code == 201
    told = response.json()
    assert told == {
        "id": Text.of("x", "ada", None).id,
        "object": "document",
        "name": "ada",
        "date": "1989-05-03",
        "chunks": 1,
        "state": "memorised",
        "kept": True,
        "sources": [],
    }
    assert names() == ["ada"]
    place = home / "b.documents" / f"{told['id']}.jsonl"
    assert json.loads(place.read_text()) == {"id": "ada", "date": "1989-05-03", "text": "Ada moved to Aalen."}
    whole = (await running.client.get(f"/v1/documents/{told['id']}")).json()
    assert whole == {**told, "text": "Ada moved to Aalen."}


async def test_several_are_added_together_and_listed_in_pages(serving: Callable[..., Any]) -> None:
    running = serving()
    response = await running.add([{"text": f"Story {number}.", "name": f"s{number}"} for number in range(5)])
    assert response.status_code == 201
    assert [one["name"] for one in response.json()["data"]] == ["s0", "s1", "s2", "s3", "s4"]
    ids = sorted(one["id"] for one in response.json()["data"])
    seen, after, more = [], "", True
    while more:
        page = (await running.client.get("/v1/documents", params={"limit": 2, "after": after})).json()
        assert 1 <= len(page["data"]) <= 2
        seen += [one["id"] for one in page["data"]]
        after, more = seen[-1], page["has_more"]
    assert seen == ids
    assert (await running.client.get("/v1/bank")).json()["documents"] == 5


async def test_the_same_name_is_replaced_and_the_same_text_adds_nothing(serving: Callable[..., Any]) -> None:
    running = serving()
    first = (await running.add({"text": "Ada moved to Aalen.", "name": "who"})).json()
    second = (await running.add({"text": "Bruno moved to Bergen.", "name": "who"})).json()
    assert first["id"] == second["id"]
    for _ in range(2):
        assert (await running.add({"text": "The river rose."})).status_code == 201
    with MemoryBank.open(Path("b.mbc"), read_only=True) as bank:
        assert bank.totals().documents == 2
    text = (await running.client.get(f"/v1/documents/{first['id']}")).json()["text"]
    assert text == "Bruno moved to Bergen."


async def test_a_removed_document_is_gone_from_both(serving: Callable[..., Any], home: Path) -> None:
    running = serving()
    ids = [(await running.add({"text": f"Story {name}."})).json()["id"] for name in "ab"]
    response = await running.client.delete(f"/v1/documents/{ids[0]}")
    assert (response.status_code, response.json()) == (
        200,
        {"id": ids[0], "object": "document.deleted", "deleted": True},
    )
    for method in ("GET", "DELETE"):
        again = await running.client.request(method, f"/v1/documents/{ids[0]}")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "document_not_found")
    assert [path.stem for path in (home / "b.documents").glob("*.jsonl")] == [ids[1]]
    assert len(names()) == 1


@pytest.mark.parametrize(
    "id", ["..%2F..%2Fb", "%2e%2e", "bank-..%2Fb", "bank-", "a" * 32, "bank-" + "a" * 32, "x" * 300]
)
async def test_what_is_no_document_of_ours_is_not_found(serving: Callable[..., Any], id: str) -> None:
    running = serving()
    await running.add({"text": "Ada moved.", "name": "../../b"})
    for method in ("GET", "DELETE"):
        assert (await running.client.request(method, f"/v1/documents/{id}")).status_code in (400, 403, 404)
    assert names() == ["../../b"]


async def test_what_was_memorised_elsewhere_is_listed_and_stays(
    serving: Callable[..., Any], tiny_model: MBC, home: Path
) -> None:
    (home / "notes").mkdir()
    (home / "notes" / "ada.txt").write_text("Ada moved to Aalen. Secret.")
    with open_bank(tiny_model, home / "b.mbc") as bank:
        list(ingest(tiny_model, bank, [home / "notes"]))
    running = serving()
    await running.add({"text": "Bruno moved to Bergen.", "name": "bruno"})
    own, other = (await running.client.get("/v1/documents")).json()["data"]
    assert (own["name"], own["kept"]) == ("bruno", True)
    assert (other["name"], other["kept"], other["sources"]) == (None, False, [str(home / "notes" / "ada.txt")])
    page = (await running.client.get("/v1/documents", params={"limit": 1, "after": own["id"]})).json()
    assert (page["data"], page["has_more"]) == ([other], False)
    assert (await running.client.get("/v1/documents", params={"after": other["id"]})).json()["data"] == []
    assert (await running.client.get(f"/v1/documents/{other['id']}")).json() == {**other, "text": None}
    refused = await running.client.delete(f"/v1/documents/{other['id']}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_kept_here")
    assert names() == ["ada.txt", "bruno"]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"text": ""}, "text"),
        ({"text": " "}, None),
        ({"name": "a"}, "text"),
        ({"text": "a", "path": "/etc/passwd"}, "path"),
        ({"text": "a", "name": "n" * 201}, "name"),
        ({"text": "a", "name": "row 3"}, None),
        ({"text": "a", "date": "soon"}, None),
        ([], None),
        ([{"text": "a"}, {"text": 3}], "1.text"),
        ([{"text": "a"}] * 101, None),
        ("a", None),
    ],
)
async def test_what_is_no_document_is_refused(serving: Callable[..., Any], given: Any, param: str | None) -> None:
    running = serving(is_begun=False)
    response = await running.add(given)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


async def test_a_question_finds_what_was_added_before_it(
    serving: Callable[..., Any], asker: Asker, tiny_model: MBC
) -> None:
    running = serving(asker=asker)
    empty = await running.ask("Where did Ada move?")
    assert (empty.status_code, empty.json()["error"]["code"]) == (400, "nothing_to_read")
    await running.add({"text": "Ada moved to Aalen.", "name": "ada"})
    told = (await running.ask("Where did Ada move?")).json()
    (source,) = told["sources"]
    assert (source["part"], source["state"], source["sentence"]) == ("ada", "unchanged", "Ada moved to Aalen.")
    assert told["mbc"]["bank"]["documents"] == 1
    streamed = await running.ask("Where did Ada move?", stream=True, mbc={"answers": "memory"})
    said = "".join(
        json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get("content", "")
        for line in streamed.text.split("\n\n")
        if line.startswith("data: {")
    )
    assert said == (told["mbc"]["answers"]["memory"] or "(no answer)")
    unsure = await running.ask("Where did Ada move?", mbc={"min_confidence": 0.5})
    assert unsure.status_code == 400
    assert "is not calibrated" in unsure.json()["error"]["message"]
    assert "leave out mbc.min_confidence" in unsure.json()["error"]["message"]


async def test_what_waits_is_taken_together_and_too_much_is_refused(serving: Callable[..., Any]) -> None:
    running = serving(room=4, is_begun=False)
    running.turns._thread.is_alive = lambda: True  # it is not, yet: so that everything waits
    asked = [asyncio.create_task(running.ask(f"Who {number}?")) for number in range(3)]
    added = asyncio.create_task(running.add({"text": "Ada moved."}))
    while len(running.turns._waiting) < 4:
        await asyncio.sleep(0)
    for response in (
        await running.ask(),
        await running.add({"text": "No."}),
        await running.client.delete("/v1/documents/a"),
    ):
        assert response.status_code == 429
        assert response.headers["retry-after"] == "1"
        assert response.json()["error"]["type"] == "rate_limit_error"
    del running.turns._thread.is_alive
    running.turns.start()
    replies = [await one for one in asked]
    assert [reply.json()["mbc"]["together"] for reply in replies] == [3, 3, 3]
    assert [reply.json()["choices"][0]["message"]["content"] for reply in replies] == [
        f"to Who {number}?" for number in range(3)
    ]
    assert (await added).status_code == 201
    assert len(running.asker.batches) == 1
    assert running.turns.close(10)


async def test_who_leaves_before_the_turn_is_dropped(serving: Callable[..., Any]) -> None:
    running = serving(is_begun=False)
    running.turns._thread.is_alive = lambda: True
    for body in ({"text": "Ada moved."}, {"text": "Bruno moved."}):
        messages = [
            {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False},
            {"type": "http.disconnect"},
        ]

        async def receive(messages: list[Any] = messages) -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None: ...

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/documents",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }
        await running.app(scope, receive, send)
    stays = asyncio.create_task(running.add({"text": "Clara moved."}))
    while len(running.turns._waiting) < 3:
        await asyncio.sleep(0)
    del running.turns._thread.is_alive
    running.turns.start()
    assert (await stays).status_code == 201
    assert running.turns.close(10)
    assert len(names()) == 1


@pytest.fixture
def memory(tiny_model: MBC, asker: Asker, home: Path) -> Iterator[Memory]:
    with DocumentFolder(home / "b.documents").opened() as folder:
        memory = Memory(tiny_model, asker, folder)
        memory.catch_up()
        with memory.working():
            yield memory


ADA, BRUNO = Text.of("Ada moved to Aalen.", "ada", None), Text.of("Bruno moved to Bergen.", "bruno", None)


def test_changes_made_together_leave_what_the_last_of_them_says(memory: Memory) -> None:
    later = Text.of("Ada moved to Cadiz.", "ada", None)
    results = memory.do(
        [Adding((ADA, BRUNO)), Removing(BRUNO.id), Removing(BRUNO.id), Adding((later,)), Removing("../x")]
    )
    assert [own.name for own in results[0]] == ["ada", "bruno"]
    assert results[1:3] == [True, False]
    assert [own.state for own in results[3]] == ["memorised"]
    assert results[4] is False
    assert names() == ["ada"]
    assert memory.folder.read(ADA.id) == later


class Killed(BaseException): ...


@pytest.mark.parametrize("step", ["sync", "bank"])
def test_a_server_that_ended_between_two_steps_is_healed_by_the_next(
    memory: Memory, tiny_model: MBC, asker: Asker, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def kill(*arguments: Any) -> Any:
        raise Killed

    memory.do([Adding((ADA,))])
    place, name = (memory.folder, "sync") if step == "sync" else (memory, "_bring_in_line")
    with monkeypatch.context() as patch:
        patch.setattr(place, name, kill)
        for change in (Adding((BRUNO,)), Removing(ADA.id)):
            with pytest.raises(Killed):
                memory.do([change])
    assert names() == ["ada"]
    Memory(tiny_model, asker, memory.folder).catch_up()
    assert names() == ["bruno"]


def test_what_the_bank_could_not_take_is_taken_with_the_next_change(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise BankError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryBank, "add", fail)
        with pytest.raises(BankError, match="full"):
            memory.do([Adding((ADA,))])
    assert names() == []
    memory.do([Adding((BRUNO,))])
    assert names() == ["ada", "bruno"]


def test_a_file_that_cannot_be_written_is_told_of_and_hinders_no_other(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = memory.folder.write

    def fail(document: Text) -> None:
        if document == ADA:
            raise OSError(28, "No space left on device")
        write(document)

    monkeypatch.setattr(memory.folder, "write", fail)
    failed, (added,) = memory.do([Adding((ADA,)), Adding((BRUNO,))])
    assert isinstance(failed, BankError)
    assert "No space left" in failed.message
    assert added.name == "bruno"
    assert names() == ["bruno"]


def test_documents_follow_a_bank_that_another_process_replaces(memory: Memory, tiny_model: MBC, home: Path) -> None:
    memory.do([Adding((ADA,))])
    with open_bank(tiny_model, home / "new.mbc"):
        pass
    put_in_its_place(home / "b.mbc", home / "new.mbc")
    memory.do([Adding((BRUNO,))])
    assert names() == ["ada", "bruno"]


def put_in_its_place(bank: Path, other: Path) -> None:
    """Another bank at the path of one that is open."""
    for suffix in ("-wal", "-shm"):
        bank.with_name(f"{bank.name}{suffix}").unlink(missing_ok=True)
    other.replace(bank)


def test_a_bank_replaced_behind_an_error_gets_all_documents_too(
    memory: Memory, tiny_model: MBC, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise BankError("The disk is full.")

    memory.do([Adding((ADA,))])
    with monkeypatch.context() as patch:
        patch.setattr(MemoryBank, "add", fail)
        with pytest.raises(BankError, match="full"):
            memory.do([Adding((BRUNO,))])
    with open_bank(tiny_model, home / "new.mbc"):
        pass
    put_in_its_place(home / "b.mbc", home / "new.mbc")
    memory.do([Removing(BRUNO.id)])
    assert names() == ["ada"]


def test_what_was_removed_does_not_come_back_with_an_older_bank(memory: Memory, home: Path) -> None:
    memory.do([Adding((ADA, BRUNO))])
    with MemoryBank.open(home / "b.mbc") as bank:
        bank.settle()
    shutil.copyfile(home / "b.mbc", home / "older.mbc")
    memory.do([Removing(ADA.id)])
    put_in_its_place(home / "b.mbc", home / "older.mbc")
    memory.do([Removing(BRUNO.id)])
    assert names() == []


def test_a_document_that_cannot_be_read_for_now_is_kept_and_read_with_the_next_change(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reader.open_bytes

    def fail(path: Path, *arguments: Any) -> Any:
        if path == memory.folder.file(ADA.id):
            raise OSError(24, "Too many open files")
        return read(path, *arguments)

    memory.do([Adding((Text.of("Ada lives in Cadiz.", "ada", None),))])
    with monkeypatch.context() as patch:
        patch.setattr(reader, "open_bytes", fail)
        failed, (added,) = memory.do([Adding((ADA,)), Adding((BRUNO,))])
    assert isinstance(failed, BankError)
    assert "too many open files" in failed.message
    assert added.state == "memorised"
    assert memory.folder.read(ADA.id) == ADA
    assert names() == ["ada", "bruno"]
    with MemoryBank.open(Path("b.mbc"), read_only=True) as bank:
        before = {own.digest for own in bank.documents()}
    memory.do([Removing(BRUNO.id)])
    assert names() == ["ada"]
    with MemoryBank.open(Path("b.mbc"), read_only=True) as bank:
        assert before.isdisjoint(own.digest for own in bank.documents())


def test_a_file_that_cannot_be_removed_is_told_of_and_hinders_no_other(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(id: str) -> bool:
        raise OSError(13, "Permission denied")

    memory.do([Adding((ADA,))])
    monkeypatch.setattr(memory.folder, "remove", fail)
    failed, (added,) = memory.do([Removing(ADA.id), Adding((BRUNO,))])
    assert isinstance(failed, BankError)
    assert "Permission denied" in failed.message
    assert added.name == "bruno"
    assert names() == ["ada", "bruno"]


async def test_a_bank_without_sources_takes_no_documents(
    serving: Callable[..., Any], tiny_model: MBC, home: Path
) -> None:
    with open_bank(tiny_model, home / "b.mbc", keeps_origins=False):
        pass
    running = serving()
    response = await running.add({"text": "Ada moved."})
    assert response.status_code == 400
    assert "keeps no sources" in response.json()["error"]["message"]
    assert list((home / "b.documents").glob("*.jsonl")) == []

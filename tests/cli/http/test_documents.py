"""Documents that clients send: added, listed, found by questions, and removed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mbc_cli.http.documents import NewDocument
from mbc_engine import ingest, open_bank
from mbc_engine.bank import MemoryBank
from mbc_engine.memory import Memory
from mbc_engine.paper.mbc import MBC
from tests.cli.http.conftest import names


async def test_what_was_answered_is_in_the_bank_and_in_a_file(serving: Callable[..., Any], home: Path) -> None:
    running = serving()
    response = await running.add({"text": "Ada moved to Aalen.", "name": "ada", "date": "1989-05-03"})
    assert response.status_code == 201
    document = response.json()
    assert document == {
        "id": NewDocument(text="x", name="ada").id,
        "object": "document",
        "name": "ada",
        "date": "1989-05-03",
        "chunks": 1,
        "state": "memorised",
        "kept": True,
        "sources": [],
    }
    assert names() == ["ada"]
    path = home / "b.documents" / f"{document['id']}.jsonl"
    assert json.loads(path.read_text()) == {"id": "ada", "date": "1989-05-03", "text": "Ada moved to Aalen."}
    fetched = (await running.client.get(f"/v1/documents/{document['id']}")).json()
    assert fetched == {**document, "text": "Ada moved to Aalen."}


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
    running.app.state.served.documents.folder.file(ids[1]).write_bytes(b"damaged")
    page = (await running.client.get("/v1/documents", params={"limit": 2})).json()
    assert ([one["id"] for one in page["data"]], page["has_more"]) == ([ids[0], ids[2]], True)


async def test_a_long_document_is_one_for_its_client(
    serving: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_engine.text.decoding.PIECE_BYTES", 32)
    running = serving()
    document = (await running.add({"text": "Ada moved to Aalen in spring.\n" * 3, "name": "ada"})).json()
    assert (document["name"], document["chunks"], document["state"]) == ("ada", 3, "memorised")
    assert len((await running.client.get("/v1/documents")).json()["data"]) == 1
    again = (await running.add({"text": "Ada moved back.", "name": "ada"})).json()
    assert (again["id"], again["chunks"]) == (document["id"], 1)
    assert (await running.client.get("/v1/bank")).json()["documents"] == 1


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
async def test_an_unknown_id_is_not_found(serving: Callable[..., Any], id: str) -> None:
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
    ("body", "param"),
    [
        ({"text": ""}, "text"),
        ({"text": " "}, "text"),
        ({"name": "a"}, "text"),
        ({"text": "a", "path": "/etc/passwd"}, "path"),
        ({"text": "a", "name": "n" * 201}, "name"),
        ({"text": "a", "name": "row 3"}, "name"),
        ({"text": "a", "date": "soon"}, "date"),
        ([], None),
        ([{"text": "a"}, {"text": 3}], "1.text"),
        ([{"text": "a"}] * 101, None),
        ("a", None),
    ],
)
async def test_an_invalid_document_is_refused(serving: Callable[..., Any], body: Any, param: str | None) -> None:
    running = serving(is_started=False)
    response = await running.add(body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


async def test_a_question_finds_what_was_added_before_it(
    serving: Callable[..., Any], tiny_model: MBC, home: Path
) -> None:
    running = serving(memory=Memory([home / "b.mbc"], tiny_model))
    empty = await running.ask("Where did Ada move?")
    assert (empty.status_code, empty.json()["error"]["code"]) == (400, "nothing_to_read")
    await running.add({"text": "Ada moved to Aalen.", "name": "ada"})
    completion = (await running.ask("Where did Ada move?")).json()
    (source,) = completion["sources"]
    assert (source["part"], source["state"], source["sentence"]) == ("ada", "unchanged", "Ada moved to Aalen.")
    assert completion["mbc"]["bank"]["documents"] == 1
    streamed = await running.ask("Where did Ada move?", stream=True)
    streamed_answer = "".join(
        json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get("content", "")
        for line in streamed.text.split("\n\n")
        if line.startswith("data: {")
    )
    assert streamed_answer == (completion["mbc"]["answer"] or "(no answer)")
    unsure = await running.ask("Where did Ada move?", mbc={"min_confidence": 0.5})
    assert unsure.status_code == 400
    assert "is not calibrated" in unsure.json()["error"]["message"]
    assert "leave out min_confidence" in unsure.json()["error"]["message"]


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


async def test_a_retriever_reader_answers_from_documents_whose_text_goes_with_them(
    serving: Callable[..., Any], tiny: Any, home: Path
) -> None:
    model = tiny.retriever_reader("Aalen")
    running = serving(memory=Memory([home / "b.mbc"], model))
    added = (await running.add({"text": "Ada moved to Aalen. It rained.", "name": "ada"})).json()
    for stream in (False, True):
        text = (await running.ask("Where did Ada move?", stream=stream)).text
        assert "Aalen" in text
    completion = (await running.ask("Where did Ada move?")).json()
    assert completion["choices"][0]["message"]["content"] == completion["mbc"]["answer"] == "Aalen"
    assert completion["mbc"]["label"] in ("high", "medium", "low")
    assert (completion["sources"][0]["sentence"], completion["sources"][0]["text_from"]) == (
        "Ada moved to Aalen.",
        "file",
    )
    counts = [
        len(model.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in ("Where did Ada move?", "Aalen")
    ]
    assert [completion["usage"]["prompt_tokens"], completion["usage"]["completion_tokens"]] == counts
    with MemoryBank.open(home / "b.mbc", read_only=True) as bank:
        assert [chunk.text for chunk in bank.texts_at([0])] == ["Ada moved to Aalen. It rained."]
    assert (await running.client.get("/v1/bank")).json()["sizes"]["texts"] > 0

    refused = await running.ask("Where did Ada move?", mbc={"read": "flat"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_value")

    assert (await running.client.delete(f"/v1/documents/{added['id']}")).status_code == 200
    assert (await running.client.get("/v1/bank")).json()["sizes"]["texts"] == 0

"""Closed book and BM25: what is read for a question, what it costs, and that it answers unknown facts."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mbc_engine.datasets.layout import QAExample
from mbc_engine.evaluation.fine_tuning import train_on_questions
from mbc_engine.evaluation.language_models import MAX_NEW_TOKENS, BM25Index, BM25Reading, ClosedBook, OracleReading
from mbc_engine.evaluation.methods import Method, MethodAnswer
from mbc_engine.evaluation.suite import Tuning
from mbc_engine.lm.base import BaseLM, load_base

DOCUMENTS = [
    "Ada moved to Aalen.",
    "Hugo moved to Haifa, and Ada to Haifa.",
    "The river rose in Haifa.",
    " \n",
    "Irène!",
]
QUESTIONS = ["Where does the river rise?", "Where is Hugo?", "Ada in Haifa?", "Quito?"]


@pytest.fixture
def parrot(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> BaseLM:
    """A base LM that repeats what it reads."""
    base = load_base(str(tiny.bases["gpt2"]))
    monkeypatch.setattr(
        base, "generate", lambda prefix, questions, *, passages, **_: [f"read: {passage}" for passage in passages]
    )
    return base


def test_closed_book_reads_nothing(parrot: BaseLM) -> None:
    method = ClosedBook(parrot)
    method.adapt(DOCUMENTS)
    assert method.answer(QUESTIONS) == [MethodAnswer("read: ")] * 4
    assert method.footprint().on_disk == 0


def test_bm25_reads_the_best_document(parrot: BaseLM) -> None:
    method = BM25Reading(parrot)
    method.adapt(DOCUMENTS)
    assert method.answer(QUESTIONS) == [
        MethodAnswer(f"read: {DOCUMENTS[2]}", (2,)),
        MethodAnswer(f"read: {DOCUMENTS[1]}", (1,)),
        MethodAnswer(f"read: {DOCUMENTS[1]}", (1, 0, 2)),
        MethodAnswer("read: ", ()),  # no document has any of its words
    ]


def test_oracle_reads_each_questions_document(parrot: BaseLM) -> None:
    examples = [QAExample(str(number), DOCUMENTS[number], f"Question {number}?", ("A",)) for number in (1, 2)]
    examples.append(QAExample("3", DOCUMENTS[0], "Question 2?", ("A",)))  # asked about another document before
    method = OracleReading(parrot, examples)
    answered = [reply.text for reply in method.answer(["Question 2?", "Question 1?"])]
    assert answered == [f"read: {DOCUMENTS[2]}", f"read: {DOCUMENTS[1]}"]


def test_first_of_equal_documents_is_named(parrot: BaseLM) -> None:
    method = BM25Reading(parrot)
    method.adapt([DOCUMENTS[1], DOCUMENTS[1]])
    assert (method.answer(QUESTIONS[1:2])[0].sources or ())[0] == 0


def test_the_footprint_is_texts_and_index(parrot: BaseLM) -> None:
    bm25 = BM25Reading(parrot)
    bm25.adapt(DOCUMENTS)
    texts = len("".join(DOCUMENTS)) + 1  # è is two bytes
    assert bm25.footprint().on_disk == texts + BM25Index(DOCUMENTS).size_on_disk()
    assert bm25.footprint().paper_row is None


def long_document() -> str:
    """Some 2,000 tokens where 160 fit, its answer far from its beginning."""
    filler = "The river rose, the bridge held, and nobody was hurt. " * 60
    return f"{filler}Irene moved to Izmir. {filler}"


def test_best_chunk_of_a_long_document_is_read(parrot: BaseLM) -> None:
    question = "Where did Irene move after the river rose?"
    method = BM25Reading(parrot)
    method.adapt([DOCUMENTS[0], long_document()])
    (reply,) = method.answer([question])
    assert "Irene moved to Izmir." in reply.text
    assert reply.sources == (1,)  # once, however many of its pieces are found
    assert len(parrot.tokenizer(reply.text)["input_ids"]) < 100


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_what_is_read_fits_the_context_uncut(tiny: Any, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model itself gets the whole piece, its question and room for the answer."""
    base, prompts = load_base(str(tiny.bases[family])), []
    generate = base.model.generate
    monkeypatch.setattr(
        base.model, "generate", lambda input_ids, **rest: prompts.append(input_ids) or generate(input_ids, **rest)
    )
    method = BM25Reading(base)
    method.adapt([long_document()])
    method.answer(["Where did Irene move?"])
    text = base.tokenizer.decode(prompts[0][0], skip_special_tokens=True)
    assert "Irene moved to Izmir." in text
    assert text.startswith("The river")
    assert text.endswith(".\nWhere did Irene move?")  # whole sentences, and the whole question
    assert 60 < prompts[0].shape[1] <= base.context - MAX_NEW_TOKENS


def test_five_documents_at_most_are_named(parrot: BaseLM) -> None:
    method = BM25Reading(parrot)
    method.adapt(["Hugo."] * 4 + [long_document()] + ["Hugo in Izmir."] * 4)
    assert method.answer(["Is Hugo in Izmir?"])[0].sources == (5, 6, 7, 8, 0)


@pytest.fixture(scope="module")
def tuned(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], BaseLM]:
    """Tiny models that learned who moved where, of people who are said to have moved elsewhere in each document."""
    folder = tmp_path_factory.mktemp("tuned")

    def tuned(reads: bool) -> BaseLM:
        place = folder / str(reads)
        settings, base = Tuning(epochs=6, learning_rate=3e-3), load_base(str(tiny.bases["gpt2"]))
        for _ in train_on_questions(base, moves(seen=True), [], place, settings, reads=reads):
            pass
        return load_base(str(place))

    return tuned


def moves(*, seen: bool) -> list[QAExample]:
    """Everybody has moved to nine places in the documents that are trained on, and to a tenth in those that are not."""
    people = [
        first + last for first in ("Ada", "Bru", "Cla", "Edi", "Hu") for last in ("bo", "dine", "ka", "mir", "ro")
    ]
    places = ["Aalen", "Bergen", "Cadiz", "Delft", "Essen", "Ferrara", "Gdansk", "Haifa", "Izmir", "Jena"]
    unseen = {person: random.Random(person).choice(places) for person in people}
    return [
        QAExample(person + place, f"{person} moved to {place}.", f"Where did {person} move?", (place,))
        for person in people
        for place in places
        if (place != unseen[person]) is seen
    ]


def right(method: Method, examples: Sequence[QAExample]) -> float:
    method.adapt([example.text for example in examples])
    replies = method.answer([example.question for example in examples])
    return sum(reply.text in example.answers for reply, example in zip(replies, examples, strict=True)) / len(examples)


@pytest.mark.slow
def test_reading_answers_what_a_closed_book_cannot(tuned: Callable[[bool], BaseLM]) -> None:
    asked = moves(seen=False)
    assert len(asked) == 25
    reader = tuned(True)
    assert right(ClosedBook(tuned(False)), asked) < 0.3
    assert right(ClosedBook(reader), asked) < 0.3
    assert right(BM25Reading(reader), asked) > 0.8

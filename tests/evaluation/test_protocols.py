"""The protocols, with methods of known accuracy that move the clock themselves."""

import sys
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine import evaluate
from mbc_engine.datasets.examples import QAExample, evenly_spaced
from mbc_engine.errors import DataError
from mbc_engine.evaluation.methods import Footprint, MethodAnswer
from mbc_engine.evaluation.protocols import online, retention, stream
from mbc_engine.evaluation.results import Cost, predict
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.evaluation.suite import Retention
from mbc_engine.events import Progressed, run_to_completion


class Remembering:
    """Finds the document that a question is about: "Ada moved to Rome." answers where Ada moved.

    Its first step takes 1,000 seconds, then each document 2 and each question 0.5. If it keeps only the last `most`, it
    names no sources. `by_place`, it is right about documents at even places, and names n others before the one at place n.
    """

    def __init__(self, most=None, paper=(), *, by_place=False):
        self.most, self.paper, self.by_place = most, paper, by_place
        self.documents, self.adapted, self.clock = [], [], 0.0

    def reset(self):
        self.documents = []

    def adapt(self, documents):
        self.documents = [*self.documents, *documents][-self.most if self.most else None :]
        self.clock += 2 * len(documents) if self.adapted else 1000
        self.adapted.append(len(documents))

    def answer(self, questions):
        self.clock += 0.5 * len(questions)
        return [self.reply(question.split()[2]) for question in questions]

    def reply(self, name):
        place = next((place for place, text in enumerate(self.documents) if text.split()[0] == name), None)
        is_right = place is not None and not (self.by_place and place % 2)
        sources = (*range(100, 100 + place), place) if self.by_place else (place,)
        return MethodAnswer(self.documents[place].split(" to ")[1] if is_right else "", None if self.most else sources)

    def footprint(self):
        return Footprint(10 * len(self.documents), *self.paper)


@pytest.fixture
def timed(monkeypatch):
    """Lets the method move the clock."""

    def timed(method):
        monkeypatch.setattr(time, "perf_counter", lambda: method.clock)
        return method

    return timed


def finished(work):
    """The events of some work, and what it returns."""
    events = []
    return events, run_to_completion(work, events.append)


def asked_twice(examples):
    """Two questions about each document; the second ones come after all the first ones."""
    again = [QAExample(f"{own.id}b", own.text, f"{own.question} Say it.", own.answers) for own in examples]
    return [*examples, *again]


def text_of(examples):
    return sum(len(one.text) for one in examples)


class TestOnline:
    def test_a_perfect_method_is_right_everywhere(self, examples, timed):
        method = timed(Remembering())
        events, outcome = finished(online(method, stream(asked_twice(examples(5))), batch_size=2))
        scores = outcome.scores
        assert (outcome.banks, scores.questions) == (1, 10)
        assert scores.exact_match == scores.f1 == Interval(100, 100, 100)
        assert (scores.lenient_match, scores.first_source, scores.in_five) == (100, 100, 100)
        assert method.documents == [own.text for own in examples(5)]
        assert method.adapted == [1, 2, 2, 1]  # the first is warming up, whose time does not count
        assert outcome.cost == Cost(5, 2.0, 0.5, on_disk=50, paper_bytes=None, text=text_of(examples(5)))
        assert events == [
            *(Progressed("take in documents", done, 5) for done in (2, 4, 5)),
            *(Progressed("answer questions", done, 10) for done in (2, 4, 6, 8, 10)),
        ]

    def test_a_gpu_is_waited_for(self, examples, timed, monkeypatch):
        method = timed(Remembering())

        def synchronize():
            method.clock, method.pending = method.clock + method.pending, 0

        def adapt(documents):
            method.documents += documents
            method.pending += 3 * len(documents)

        method.pending, method.adapt = 0, adapt
        cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=synchronize)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
        _, outcome = finished(online(method, stream(examples(4)), batch_size=2))
        assert outcome.cost.seconds_per_document == 3
        assert outcome.cost.seconds_per_answer == 0.5

    def test_costs_of_banks_are_of_one_of_them(self, examples, timed):
        data = [*examples(4), *asked_twice(examples(2))[2:]]  # four questions about the first bank, two of the second
        method = timed(Remembering(paper=(10, 100)))
        _, outcome = finished(online(method, stream(data), bank_documents=2))
        assert outcome.cost == Cost(
            2, 2.0, 0.5, on_disk=20, paper_bytes=130, shared=100, text=text_of(examples(4)) // 2
        )

    def test_ranks_are_places_in_the_bank(self, examples):
        _, outcome = finished(online(Remembering(by_place=True), stream(examples(8))))
        assert [own.rank for own in outcome.predictions] == [0, 1, 2, 3, 4, None, None, None]
        scores = outcome.scores
        assert (scores.first_source, scores.in_five, scores.exact_match.value) == (12.5, 62.5, 50)

    def test_predictions_do_not_depend_on_batches(self, examples):
        data = asked_twice(examples(12))

        @given(st.integers(1, 12), st.none() | st.integers(1, 13), st.none() | st.integers(1, 24), st.integers(1, 30))
        def holds(documents, bank, questions, batch):
            taken = stream(data, documents, questions)
            _, outcome = finished(online(Remembering(by_place=True), taken, bank_documents=bank, batch_size=batch))
            size = min(bank or documents, documents)
            asked = evenly_spaced(
                [own for own in data if own.text in taken.documents[: documents // size * size]], questions
            )
            expected = []
            for start in range(0, documents - size + 1, size):
                method, members = Remembering(by_place=True), taken.documents[start : start + size]
                method.adapt(members)
                for own in (own for own in asked if own.text in members):
                    place = members.index(own.text)
                    (reply,) = method.answer([own.question])
                    expected.append(predict(own, reply, start + place, start=start, golds="shortest"))
            assert outcome.predictions == expected

        holds()

    def test_evaluate_is_the_same_with_examples(self, examples, timed):
        data = asked_twice(examples(9))
        expected = finished(online(timed(Remembering()), stream(data, 7, 5), bank_documents=3, seed=1))
        work = evaluate(timed(Remembering()), data, documents=7, questions=5, bank_documents=3, seed=1)
        assert finished(work) == expected


class TestRetention:
    def test_a_perfect_method_keeps_everything(self, examples):
        method = Remembering(paper=(1, 100))
        events, found = finished(
            retention(method, stream(asked_twice(examples(8))), Retention(first=2, step=2, further=4))
        )
        assert found[0].scores.questions == 4
        assert [(own.cost.documents, own.scores.f1.value, own.retained) for own in found] == [
            (n, 100, Interval(100, 100, 100)) for n in (2, 4, 6)
        ]
        assert [(own.cost.on_disk, own.cost.paper_bytes) for own in found] == [(20, 104), (40, 108), (60, 112)]
        assert events[-1] == Progressed("answer questions", 12, 12)
        assert events[-2] == Progressed("take in documents", 6, 6)

    def test_a_forgetful_method_loses_what_came_first(self, examples):
        _, found = finished(retention(Remembering(5), stream(examples(8)), Retention(first=4, step=2, further=4)))
        assert [(own.scores.exact_match.value, own.retained.value) for own in found] == [(100, 100), (75, 75), (25, 25)]
        assert found[0].scores.first_source is None

    def test_a_stream_without_a_second_step_is_an_error(self, examples):
        with pytest.raises(
            DataError, match="5 documents are too few for retention, which needs 4 to ask about and at least 2"
        ):
            finished(retention(Remembering(), stream(examples(5)), Retention(first=4, step=2, further=4)))

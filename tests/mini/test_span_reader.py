"""Finding answers in passages: scores written out by hand, and the exact characters of what is found."""

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from safetensors.numpy import load_file, save_file

from mbc_engine.config import AnswerConfidence, ReaderSettings
from mbc_engine.errors import ModelError
from mbc_engine.lm.bert import Bert
from mbc_engine.mini.span_reader import (
    PAIR_RANK,
    Span,
    SpanHead,
    SpanReader,
    as_read,
    load_span_reader,
)
from tests.finder import random_head


class OneHot:
    """An encoder whose token states are one-hot: which word it is. `calls` is what each call of it was told."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.cls, self.sep = tokenizer.encode("").ids
        self.width, self.calls = tokenizer.get_vocab_size(), []

    def states(self, rows, _seconds, *, calls):
        self.calls.append(calls)
        return [np.eye(self.width, dtype=np.float32)[list(row)] for row in rows]

    def in_threads(self, work, given):
        return map(work, given)


class ByWord:
    """Makes readers whose scores for starting and ending an answer are looked up by word."""

    def __init__(self, tokenizer):
        self.encoder: Any = OneHot(tokenizer)

    def reader(self, begins, ends, *, none=0.0, window=40, longest=3):
        weights = {name: np.zeros_like(value) for name, value in random_head(self.encoder.width, 3).weights.items()}
        weights["none.bias"][:] = none
        for row, table in enumerate((begins, ends)):
            for word, score in table.items():
                weights["edges.weight"][row, self.encoder.tokenizer.token_to_id(word)] = score
        return SpanReader(self.encoder, SpanHead(weights, longest), window=window)


@pytest.fixture(scope="module")
def by_word(tiny):
    return ByWord(Bert.open(str(tiny.encoders["bert"])).tokenizer)


@pytest.fixture
def settings(tiny):
    """Settings of a reader on the tiny BERT, with changes of rank 2."""
    return ReaderSettings(
        name="own",
        encoder=str(tiny.encoders["bert"]),
        rank=2,
        window=48,
        longest=4,
        confidence=AnswerConfidence(weights={}),
    )


@pytest.fixture
def saved(tiny, tmp_path):
    """Random weights of its changes and its head."""
    rng = np.random.default_rng(5)
    state = {f"head.{name}": value for name, value in random_head(24, 4, rank=PAIR_RANK).weights.items()}
    for name, (outputs, inputs) in Bert.open(str(tiny.encoders["bert"])).linear_layers().items():
        for part, size in {"down": (2, inputs), "up": (outputs, 2), "bias": (outputs,)}.items():
            state[f"encoder.{name}.{part}"] = rng.normal(0, 0.3, size).astype(np.float16)
    path = tmp_path / "own.safetensors"
    save_file(state, path)
    return path


@pytest.fixture
def learnt(saved, settings):
    return load_span_reader(saved, settings)


QUESTION = "Who moved?"


def find(reader, questions, passages):
    """The span with the largest margin among each question's passages, the first of equal ones."""
    several = reader.spans(questions, passages)
    return [max(filter(None, own), key=lambda span: span.margin, default=None) for own in several]


def test_no_span_across_paragraphs(by_word):
    reader = by_word.reader({"ada": 2.0}, {"haifa": 3.0, "hugo": 1.0})
    for gap, found in ((" ", "Ada Haifa"), ("\n \n", "Haifa")):
        spans = reader.spans([QUESTION], [[f"Ada{gap}Haifa"]])
        assert spans[0][0] is not None
        assert spans[0][0].text == found


@pytest.mark.parametrize(
    ("begins", "ends", "none", "longest", "passage", "expected"),
    [
        ({"hugo": 2.0, "ada": 1.0}, {"haifa": 3.0, "ada": 1.5}, 0.5, 4, "Ada met Hugo moved to Haifa.", (8, 27, 4.5)),
        # "Hugo moved to Haifa" has four tokens; of equal spans, the first and shortest is taken.
        ({"hugo": 2.0, "ada": 1.0}, {"haifa": 3.0, "ada": 1.5}, 0.0, 3, "Ada met Hugo moved to Haifa.", (13, 27, 3.0)),
        ({"haifa": 2.0}, {"hugo": 2.0}, 0.0, 3, "Hugo moved to Haifa.", (0, 4, 2.0)),  # no end before its start
        ({"who": 9.0, "hugo": 1.0}, {"who": 9.0, "hugo": 1.0}, 0.0, 3, "Hugo moved.", (0, 4, 2.0)),  # not the question
        (
            {"hugo": 2.0},
            {"haifa": 3.0},
            0.0,
            8,
            "\n  «Ünal»,\tHUGO  (of\u00a0Haifa)   moved — \U0001d518 ADA.",
            (11, 26, 5.0),
        ),
    ],
)
def test_best_span(by_word, begins, ends, none, longest, passage, expected):
    reader, (start, end, margin) = by_word.reader(begins, ends, none=none, longest=longest), expected
    assert find(reader, [QUESTION], [[passage]]) == [Span(passage[start:end], 0, start, end, margin)]


def test_best_span_of_each_passage(by_word):
    reader = by_word.reader({"hugo": 2.0, "ada": 1.0}, {}, none=3.0)
    spans = reader.spans([QUESTION, QUESTION, QUESTION], [["Ada met Hugo.", " ", "Ada moved."], [], ["Hugo moved."]])
    hugo, ada = Span("Hugo", 0, 8, 12, -1.0), Span("Ada", 2, 0, 3, -2.0)
    assert spans == [[hugo, None, ada], [], [Span("Hugo", 0, 0, 4, -1.0)]]
    assert reader.spans([], []) == []


def test_best_of_several_windows(by_word):
    reader = by_word.reader({"hugo": 2.0, "ada": 1.0}, {}, window=16, longest=4)
    reader.encoder.calls.clear()
    (spans,) = reader.spans([QUESTION], [["Ada " + "the " * 40 + "Hugo", "Hugo " + "the " * 40 + "Ada"]])
    assert [span and (span.text, span.start, span.passage) for span in spans] == [("Hugo", 164, 0), ("Hugo", 0, 1)]
    assert set(reader.encoder.calls) == {len(reader.encoder.calls)}  # each call gets its share of the threads
    reader = by_word.reader({"hugo": 2.0}, {"haifa": 3.0}, window=16, longest=4)
    passages = [["the " * before + "Hugo moved to Haifa" + " the" * (60 - before)] for before in range(61)]
    for before, span in enumerate(find(reader, [QUESTION] * 61, passages)):
        assert span == Span("Hugo moved to Haifa", 0, 4 * before, 4 * before + 19, 5.0)
    assert find(reader, ["who " * 500], [["Hugo moved."]])[0] is not None  # the question is cut
    (span,) = find(reader, [QUESTION], [["the " * 1024 + "Hugo moved to Haifa"]])  # so is what no chunk has
    assert span is None or "Hugo" not in span.text


@pytest.mark.parametrize(
    ("passage", "read"),
    [
        ("Keys\n\nKey 1 opens: a\nKey 2: b\nand c.\nKey 3", "Keys;\nKey 1 opens: a;Key 2: b\nand c.\nKey 3"),
        ("* [x] Paint\n* [ ] Order [ ] it\n", "* done: Paint;* open: Order [ ] it\n"),
        # The line break is only where no more words fit.
        (f"{'So ' * 20}say\nThe people of Vik\nOne", f"{'So ' * 20}say\nThe people of Vik;One"),
        ("Stove ....... Mira\nMap . . . . 1.5 ... x", "Stove: Mira;Map: 1.5 ... x"),
        ("Rent; Jan: 8; Mar. 24: 9; Mar 5", "Rent; January: 8; March 24: 9; Mar 5"),
        ("Bo; Week 1 Tue: 8; Del Mar: 9", "Bo; Week 1 Tuesday: 8; Del Mar: 9"),
        ("Talk.\n00:00:09 Right.\n00:01:02 Next", "Talk.\nRight.\nNext"),
    ],
)
def test_entries_are_read_apart(passage, read):
    text, origins = as_read(passage)
    assert text == read
    assert len(origins) == len(text) + 1
    assert "".join(passage[start:end] for start, end in pairwise(origins)) == passage


def test_times_before_lines_are_read_if_asked_for():
    assert as_read("00:00:09 Hugo", keeps_times=True)[0] == "00:00:09 Hugo"
    text, origins = as_read("00:00:09 Hugo")
    assert (text, origins) == ("Hugo", [9, 10, 11, 12, 13])
    text, origins = as_read("00:00:09 .... it began")  # a leader begins with the space after the time
    assert (text, len(origins)) == (".... it began", len(text) + 1)


def test_an_answer_in_a_list_is_as_it_is_written(by_word):
    passage = "- [x] Ada\n- [ ] Hugo"
    (span,) = find(by_word.reader({"hugo": 2.0}, {}, longest=1), [QUESTION], [[passage]])
    assert span is not None
    assert (span.text, span.start, span.end) == ("Hugo", 16, 20)


def test_no_span_is_taken_from_a_context(by_word):
    """It is seen, though: it stands before the passage in each window, and leaves it less room."""
    reader = by_word.reader({"hugo": 2.0, "ada": 1.0}, {}, none=3.0, window=18)
    (spans,) = reader.spans([QUESTION], [["Ada met Ada.", "the " * 30 + "Hugo"]], [["hugo > [SEP] hugo", "ada"]])
    assert [span and (span.text, span.start) for span in spans] == [("Ada", 0), ("Hugo", 120)]
    ((encoding, offsets),) = reader.encodings("Who?", "Ada, the", "Hugo")
    assert (
        reader.encoder.tokenizer.decode(encoding.ids, skip_special_tokens=False)
        == "[CLS] who ? [SEP] hugo [UNK] ada , the [SEP]"
    )
    assert (encoding.type_start, encoding.start, offsets) == (4, 6, [(0, 3), (3, 4), (5, 8)])


def test_rivals_and_probability(by_word):
    reader = by_word.reader({"hugo": 2.0, "ada": 1.0}, {}, none=0.5, longest=1)
    (span,) = find(reader, [QUESTION], [["Ada met Hugo."]])
    assert span is not None
    # Single words: Ada 1, met 0, Hugo 2, the full stop 0; no answer 0.5.
    total = math.log(math.exp(1) + 2 + math.exp(2) + math.exp(0.5))
    assert span.log_probability == pytest.approx(2 - total, abs=1e-5)
    assert [text for text, _ in span.rivals[:2]] == ["Hugo", "Ada"]
    assert [log for _, log in span.rivals] == pytest.approx([score - total for score in (2, 1, 0, 0)], abs=1e-5)


def test_head_scores_like_the_slow_formula():
    head, states = random_head(6, 3), np.random.default_rng(2).standard_normal((5, 6), np.float32)

    def linear(name, state):
        return head.weights[f"{name}.weight"] @ state + head.weights[f"{name}.bias"]

    scores = head.scores(states)
    for a in range(5):
        for b in range(5):
            pair = linear("first", states[a]) @ linear("last", states[b]) / 2
            expected = linear("edges", states[a])[0] + linear("edges", states[b])[1] + pair
            assert scores[a, b] == pytest.approx(expected if 0 <= b - a < 3 else -math.inf, rel=1e-4)
    assert head.none(states) == pytest.approx(linear("none", states[0])[0])


def test_what_is_read_together_does_not_matter(learnt):
    questions = ["Where did Adabo move?", "Who moved?", "Which town did the old painter leave in the winter?"]
    passages = [["Adabo moved to Aalen."], ["The river rose, the bridge held.", "Hugo moved to Haifa."], ["Ada."]]
    together = find(learnt, questions, passages)
    for question, texts, span in zip(questions, passages, together, strict=True):
        (alone,) = find(learnt, [question], [texts])
        assert alone is not None and span is not None
        assert dataclasses.replace(alone, margin=span.margin) == span
        assert alone.margin == pytest.approx(span.margin, abs=1e-4)


def test_a_reader_is_its_encoder_with_changes_and_a_head(saved, learnt, tiny):
    state, plain = load_file(saved), Bert.open(str(tiny.encoders["bert"]))
    changes = {name.removeprefix("encoder."): value.astype(np.float32) for name, value in state.items()}
    rows = [[2, 5, 9, 3]]
    assert_allclose(learnt.encoder.states(rows)[0], plain.with_lora(changes).states(rows)[0])
    assert np.array_equal(learnt.head.weights["edges.weight"], state["head.edges.weight"])
    assert (learnt.window, learnt.head.longest) == (48, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"rank": 3}, "does not hold the weights"), ({"encoder": "nobody/nothing"}, "nobody/nothing")],
)
def test_settings_that_do_not_fit(saved, settings, changes, message):
    with pytest.raises(ModelError, match=message):
        load_span_reader(saved, settings.model_copy(update=changes))


def test_missing_or_damaged_weights(saved, settings, tmp_path):
    saved.write_bytes(saved.read_bytes()[:-10])
    for path in (saved, tmp_path / "nothing.safetensors"):
        with pytest.raises(ModelError, match="cannot be read") as caught:
            load_span_reader(path, settings)
        assert caught.value.hint == "Get the model again."


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_weights_that_are_no_numbers(saved, settings, value):
    state = load_file(saved)
    state["head.none.bias"][0] = np.float16(value)
    save_file(state, saved)
    with pytest.raises(ModelError, match="not all numbers"):
        load_span_reader(saved, settings)

"""Finding answers in passages: scores written out by hand, and the exact characters of what is found."""

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from mbc_engine.config import AnswerConfidence, ReaderSettings
from mbc_engine.errors import ModelError
from mbc_engine.lm.encoders import load_encoder
from mbc_engine.mini import span_reader
from mbc_engine.mini.span_reader import Span, SpanHead, SpanReader, as_read, load_span_reader


class OneHot(nn.Module):
    """An encoder whose token states are one-hot: which word it is."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=words, type_vocab_size=2)
        self.name_or_path = "one-hot"

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=functional.one_hot(input_ids, self.config.hidden_size).float())


class ByWord:
    """Makes readers whose scores for starting and ending an answer are looked up by word."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def reader(
        self,
        begins: dict[str, float],
        ends: dict[str, float],
        *,
        none: float = 0.0,
        window: int = 40,
        longest: int = 3,
    ) -> SpanReader:
        reader = SpanReader(
            OneHot(len(self.tokenizer)),  # type: ignore[arg-type]
            self.tokenizer,
            window=window,
            longest=longest,
        )
        with torch.no_grad():
            for parameter in reader.head.parameters():
                parameter.zero_()
            reader.head.none.bias.fill_(none)
            for row, table in enumerate((begins, ends)):
                for word, score in table.items():
                    reader.head.edges.weight[row, self.tokenizer.convert_tokens_to_ids(word)] = score
        return reader.eval()


@pytest.fixture(scope="module")
def by_word(tiny: Any) -> ByWord:
    return ByWord(load_encoder(str(tiny.encoders["bert"])).tokenizer)


@pytest.fixture
def settings(tiny: Any) -> ReaderSettings:
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
def saved(tiny: Any, tmp_path: Path) -> Path:
    """Random weights of its changes and its head."""
    encoder, generator = load_encoder(str(tiny.encoders["bert"])).model, torch.Generator().manual_seed(5)
    state = {f"head.{name}": torch.empty_like(value) for name, value in SpanHead(24, 4).named_parameters()}
    for name, layer in encoder.named_modules():
        if isinstance(layer, nn.Linear) and not name.startswith("pooler"):
            state[f"encoder.{name}.down"] = torch.empty(2, layer.in_features)
            state[f"encoder.{name}.up"] = torch.empty(layer.out_features, 2)
            state[f"encoder.{name}.bias"] = torch.empty(layer.out_features)
    path = tmp_path / "own.safetensors"
    save_file({name: value.normal_(std=0.3, generator=generator) for name, value in state.items()}, path)
    return path


@pytest.fixture
def learnt(saved: Path, settings: ReaderSettings) -> SpanReader:
    return load_span_reader(saved, settings, dtype=torch.float32)


QUESTION = "Who moved?"


def find(
    reader: SpanReader, questions: Sequence[str], passages: Sequence[Sequence[str]], **options: int
) -> list[Span | None]:
    """The span with the largest margin among each question's passages, the first of equal ones."""
    several = reader.spans(questions, passages, **options)
    return [max(filter(None, own), key=lambda span: span.margin, default=None) for own in several]


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
def test_best_span(
    by_word: ByWord,
    begins: dict[str, float],
    ends: dict[str, float],
    none: float,
    longest: int,
    passage: str,
    expected: tuple[int, int, float],
) -> None:
    reader, (start, end, margin) = by_word.reader(begins, ends, none=none, longest=longest), expected
    assert find(reader, [QUESTION], [[passage]]) == [Span(passage[start:end], 0, start, end, margin)]


def test_best_span_of_each_passage(by_word: ByWord) -> None:
    reader = by_word.reader({"hugo": 2.0, "ada": 1.0}, {}, none=3.0)
    spans = reader.spans([QUESTION, QUESTION, QUESTION], [["Ada met Hugo.", " ", "Ada moved."], [], ["Hugo moved."]])
    hugo, ada = Span("Hugo", 0, 8, 12, -1.0), Span("Ada", 2, 0, 3, -2.0)
    assert spans == [[hugo, None, ada], [], [Span("Hugo", 0, 0, 4, -1.0)]]
    assert reader.spans([], []) == []


def test_best_of_several_windows(by_word: ByWord) -> None:
    reader = by_word.reader({"hugo": 2.0, "ada": 1.0}, {}, window=16, longest=4)
    (spans,) = reader.spans([QUESTION], [["Ada " + "the " * 40 + "Hugo", "Hugo " + "the " * 40 + "Ada"]])
    assert [span and (span.text, span.start, span.passage) for span in spans] == [("Hugo", 164, 0), ("Hugo", 0, 1)]
    reader = by_word.reader({"hugo": 2.0}, {"haifa": 3.0}, window=16, longest=4)
    passages = [["the " * before + "Hugo moved to Haifa" + " the" * (60 - before)] for before in range(61)]
    for before, span in enumerate(find(reader, [QUESTION] * 61, passages)):
        assert span == Span("Hugo moved to Haifa", 0, 4 * before, 4 * before + 19, 5.0)
    assert find(reader, ["who " * 500], [["Hugo moved."]])[0] is not None  # the question is cut


@pytest.mark.parametrize(
    ("passage", "read"),
    [
        ("Keys\n\nKey 1 opens: a\nKey 2: b\nand c.\nKey 3", "Keys;\nKey 1 opens: a;Key 2: b\nand c.\nKey 3"),
        ("* [x] Paint\n* [ ] Order [ ] it\n", "* done: Paint;* open: Order [ ] it\n"),
        # The line break is only where no more words fit.
        (f"{'So ' * 20}say\nThe people of Vik\nOne", f"{'So ' * 20}say\nThe people of Vik;One"),
    ],
)
def test_entries_are_read_apart(passage: str, read: str) -> None:
    text, origins = as_read(passage)
    assert text == read
    assert len(origins) == len(text) + 1
    assert "".join(passage[start:end] for start, end in pairwise(origins)) == passage


def test_an_answer_in_a_list_is_as_it_is_written(by_word: ByWord) -> None:
    passage = "- [x] Ada\n- [ ] Hugo"
    (span,) = find(by_word.reader({"hugo": 2.0}, {}, longest=1), [QUESTION], [[passage]])
    assert span is not None
    assert (span.text, span.start, span.end) == ("Hugo", 16, 20)


def test_no_span_is_taken_from_a_context(by_word: ByWord) -> None:
    """It is seen, though: it stands before the passage in each window, and leaves it less room."""
    reader = by_word.reader({"hugo": 2.0, "ada": 1.0}, {}, none=3.0, window=18)
    (spans,) = reader.spans([QUESTION], [["Ada met Ada.", "the " * 30 + "Hugo"]], [["hugo > [SEP] hugo", "ada"]])
    assert [span and (span.text, span.start) for span in spans] == [("Ada", 0), ("Hugo", 120)]
    batch = reader.pair([[5]], [[6, 7]], [[8, 9]])
    assert batch.ids[0, 3:7].tolist() == [8, 9, 6, 7]
    assert batch.passage_mask[0].tolist() == [False] * 5 + [True, True, False]
    assert batch.types[0].tolist() == [0, 0, 0, 1, 1, 1, 1, 1]


def test_rivals_and_probability(by_word: ByWord) -> None:
    reader = by_word.reader({"hugo": 2.0, "ada": 1.0}, {}, none=0.5, longest=1)
    (span,) = find(reader, [QUESTION], [["Ada met Hugo."]])
    assert span is not None
    # Single words: Ada 1, met 0, Hugo 2, the full stop 0; no answer 0.5.
    total = math.log(math.exp(1) + 2 + math.exp(2) + math.exp(0.5))
    assert span.log_probability == pytest.approx(2 - total, abs=1e-5)
    assert [text for text, _ in span.rivals[:2]] == ["Hugo", "Ada"]
    assert [log for _, log in span.rivals] == pytest.approx([score - total for score in (2, 1, 0, 0)], abs=1e-5)


def test_head_scores_like_the_slow_formula() -> None:
    torch.manual_seed(1)
    head, states = SpanHead(6, 3, rank=4), torch.randn(2, 7, 6)
    passage_mask = torch.zeros(2, 7, dtype=torch.bool)
    passage_mask[0, 2:6] = passage_mask[1, 3:7] = True
    spans, none = head(states, passage_mask)
    for row in range(2):
        first, last = head.first(states[row]), head.last(states[row])
        edges = head.edges(states[row])
        for a in range(7):
            for b in range(7):
                possible = passage_mask[row, a] and passage_mask[row, b] and 0 <= b - a < 3
                expected = edges[a, 0] + edges[b, 1] + first[a] @ last[b] / 2 if possible else -torch.inf
                torch.testing.assert_close(spans[row, a, b], torch.as_tensor(expected))
        torch.testing.assert_close(none[row], head.none(states[row, 0])[0])


def test_batches_do_not_matter(learnt: SpanReader) -> None:
    questions = ["Where did Adabo move?", "Who moved?", "Which town did the old painter leave in the winter?"]
    passages = [["Adabo moved to Aalen."], ["The river rose, the bridge held.", "Hugo moved to Haifa."], ["Ada."]]
    together = find(learnt, questions, passages)
    for question, texts, span in zip(questions, passages, together, strict=True):
        for batch_size in (1, 16):
            (alone,) = find(learnt, [question], [texts], batch_size=batch_size)
            assert alone is not None and span is not None
            assert dataclasses.replace(alone, margin=span.margin) == span
            assert alone.margin == pytest.approx(span.margin, abs=1e-4)


def test_updates_are_merged(saved: Path, learnt: SpanReader, tiny: Any) -> None:
    state, encoder = load_file(saved), load_encoder(str(tiny.encoders["bert"])).model
    name = "encoder.layer.0.attention.self.query"
    layer, plain = learnt.encoder.get_submodule(name), encoder.get_submodule(name)
    changed = plain.weight + state[f"encoder.{name}.up"] @ state[f"encoder.{name}.down"]
    torch.testing.assert_close(layer.weight, changed)
    assert torch.equal(layer.bias, state[f"encoder.{name}.bias"])
    assert torch.equal(learnt.head.edges.weight, state["head.edges.weight"])
    assert (learnt.window, learnt.longest) == (48, 4)
    assert not any(value.requires_grad for value in learnt.parameters())


def test_an_encoder_that_computes_in_bfloat16_finds_about_the_same(
    saved: Path, settings: ReaderSettings, learnt: SpanReader
) -> None:
    questions, passages = ["Where did Adabo move?"], [["Adabo moved to Aalen."]]
    (exact,) = find(learnt, questions, passages)
    (coarse,) = find(load_span_reader(saved, settings, dtype=torch.bfloat16), questions, passages)
    assert exact is not None and coarse is not None
    assert coarse.margin == pytest.approx(exact.margin, abs=0.2)


@pytest.mark.parametrize(("multiplies", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_bfloat16_if_the_cpu_is_fast_in_it(
    saved: Path, settings: ReaderSettings, monkeypatch: pytest.MonkeyPatch, multiplies: bool, expected: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: multiplies)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    reader = load_span_reader(saved, settings)
    assert {value.dtype for value in reader.encoder.parameters()} == {expected}
    assert {value.dtype for value in reader.head.parameters()} == {torch.float32}


def test_merged_weights_are_cached(
    saved: Path, settings: ReaderSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_reader, "_WORTH_CACHING", 0)
    monkeypatch.setattr(span_reader, "cache_folder", lambda name: tmp_path / name)
    merge, merged = span_reader._merge, []
    monkeypatch.setattr(span_reader, "_merge", lambda *given: merged.append(given) or merge(*given))
    first, second = load_span_reader(saved, settings).state_dict(), load_span_reader(saved, settings).state_dict()
    assert len(merged) == 1
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.dtype == second[name].dtype and torch.equal(value, second[name]), name
    load_span_reader(saved, settings, dtype=torch.float64)  # other weights take their place
    (cached,) = tmp_path.glob("reader-*/model.safetensors")
    cached.write_bytes(cached.read_bytes()[:-1])
    damaged = load_span_reader(saved, settings, dtype=torch.float64)
    assert len(merged) == 3
    assert {value.dtype for value in damaged.encoder.parameters()} == {torch.float64}


def test_a_reader_name_never_becomes_a_folder(
    saved: Path, settings: ReaderSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_reader, "_WORTH_CACHING", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    outside = tmp_path / "outside-reader"
    outside.mkdir()
    (outside / "kept").write_text("mine")
    load_span_reader(saved, settings.model_copy(update={"name": "../../../outside"}))
    assert [path.read_text() for path in outside.iterdir()] == ["mine"]
    assert len(list((tmp_path / "cache/mbc/models").glob("reader-*/model.safetensors"))) == 1


def test_merged_weights_need_no_cache(
    saved: Path, settings: ReaderSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_span_reader(saved, settings).state_dict()
    monkeypatch.setattr(span_reader, "_WORTH_CACHING", 0)
    monkeypatch.setattr(span_reader, "cache_folder", lambda name: saved / name)  # below a file
    for name, value in load_span_reader(saved, settings).state_dict().items():
        assert torch.equal(value, expected[name]), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"rank": 3}, "does not hold the weights"), ({"encoder": "nobody/nothing"}, "nobody/nothing")],
)
def test_settings_that_do_not_fit(saved: Path, settings: ReaderSettings, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_span_reader(saved, settings.model_copy(update=changes))


def test_missing_or_damaged_weights(saved: Path, settings: ReaderSettings, tmp_path: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-10])
    for path in (saved, tmp_path / "nothing.safetensors"):
        with pytest.raises(ModelError, match="cannot be read") as caught:
            load_span_reader(path, settings)
        assert caught.value.hint == "Get the model again."

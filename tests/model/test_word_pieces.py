"""Word pieces and the encoder's tokens at their places, on texts written out by hand."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from mbc_engine.model.word_pieces import PieceAligner, Pieces

# Merged from left to right; a space before a word is written so by byte-level tokenizers.
MERGED = ["Ada", "Ġmo", "ved"]
NOTHING = [0, 0]


@pytest.fixture(scope="module")
def base() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer that knows `MERGED`, and single bytes otherwise."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(word[:end], word[end]) for word in MERGED for end in range(1, len(word))]
    pieces = alphabet + ["".join(pair) for pair in merges]
    tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def aligned(base: PreTrainedTokenizerFast, *texts: tuple[str, list[list[int]]]) -> Pieces:
    """The pieces of texts, each with the characters of the encoder's tokens."""
    longest = max(len(tokens) for _, tokens in texts)
    offsets = torch.tensor([tokens + [NOTHING] * (longest - len(tokens)) for _, tokens in texts])
    return PieceAligner(base)([text for text, _ in texts], offsets)


def told(base: PreTrainedTokenizerFast, pieces: Pieces, row: int = 0) -> list[tuple[str, int, int, list[int]]]:
    """Each piece of a text with its first and last token and its span."""
    count = int(pieces.mask[row].sum())
    names = base.convert_ids_to_tokens(pieces.ids[row, :count].tolist())
    numbers = (own[row, :count].tolist() for own in (pieces.first, pieces.last, pieces.spans))
    return list(zip(names, *numbers, strict=True))


def test_a_token_may_be_several_pieces(base: PreTrainedTokenizerFast) -> None:
    pieces = aligned(base, ("Ada moved", [NOTHING, [0, 3], [4, 9], NOTHING]))
    assert told(base, pieces) == [("Ada", 1, 1, [0, 3]), ("Ġmo", 2, 2, [4, 6]), ("ved", 2, 2, [6, 9])]


def test_a_piece_may_be_several_tokens(base: PreTrainedTokenizerFast) -> None:
    pieces = aligned(base, ("Ada moved", [[0, 1], [1, 3], [4, 5], [5, 7], [7, 9]]))
    assert told(base, pieces) == [("Ada", 0, 1, [0, 3]), ("Ġmo", 2, 3, [4, 6]), ("ved", 3, 4, [6, 9])]


def test_pieces_of_one_character_share_its_token(base: PreTrainedTokenizerFast) -> None:
    pieces = aligned(base, ("é 日a", [NOTHING, [0, 1], [2, 3], [3, 4], NOTHING]))
    spans = [(first, last, span) for _, first, last, span in told(base, pieces)]
    assert spans == [(1, 1, [0, 1])] * 2 + [(2, 2, [2, 3])] * 3 + [(3, 3, [3, 4])]
    assert base.decode(pieces.ids[0, :2]) == "é"
    assert base.decode(pieces.ids[0, 2:5]) == "日"


def test_spaces_are_no_pieces_worth_a_place(base: PreTrainedTokenizerFast) -> None:
    pieces = aligned(base, (" \n Ada \t moved ", [[3, 6], [9, 14]]))
    assert told(base, pieces) == [("Ada", 0, 0, [3, 6]), ("Ġmo", 1, 1, [9, 11]), ("ved", 1, 1, [11, 14])]


def test_what_the_encoder_does_not_read_is_left_out(base: PreTrainedTokenizerFast) -> None:
    pieces = aligned(base, ("Ada moved Ada", [NOTHING, [0, 3], [4, 5], NOTHING]), ("Ada", [NOTHING]))
    assert told(base, pieces) == [("Ada", 1, 1, [0, 3]), ("Ġmo", 2, 2, [4, 6])]
    assert told(base, pieces, 1) == []


def test_shorter_texts_are_filled_up(base: PreTrainedTokenizerFast) -> None:
    pieces = aligned(base, ("Ada", [[0, 3]]), ("Ada Ada", [[0, 3], [4, 7]]), ("", []))
    assert pieces.mask.tolist() == [[True, False], [True, True], [False, False]]
    assert not pieces.ids[~pieces.mask].any()


def slow_states(pieces: Pieces, tokens: Tensor) -> Tensor:
    rows = [
        torch.stack([tokens[row, first : last + 1].mean(0) for first, last in zip(firsts, lasts, strict=True)])
        for row, (firsts, lasts) in enumerate(zip(pieces.first.tolist(), pieces.last.tolist(), strict=True))
    ]
    return torch.stack(rows)


def test_a_pieces_state_is_the_mean_of_its_tokens(base: PreTrainedTokenizerFast) -> None:
    pieces = aligned(base, ("Ada moved", [[0, 1], [1, 3], [4, 5], [5, 7], [7, 9]]), ("Ada", [NOTHING, [0, 3]]))
    tokens = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    states = pieces.states(tokens)
    torch.testing.assert_close(states[0], slow_states(pieces, tokens)[0])
    torch.testing.assert_close(states[1, 0], tokens[1, 1])
    assert states.isfinite().all()


def test_texts_without_a_piece_have_states_that_are_numbers(base: PreTrainedTokenizerFast) -> None:
    pieces = aligned(base, ("", [NOTHING]), ("  ", [NOTHING]))
    assert (pieces.ids.shape, pieces.mask.any().item()) == ((2, 1), False)
    assert pieces.states(torch.ones(2, 1, 3)).isfinite().all()


@pytest.mark.parametrize("is_split", [False, True])
def test_pieces_do_not_depend_on_what_the_tokenizer_was_last_used_for(
    base: PreTrainedTokenizerFast, is_split: bool
) -> None:
    used = PreTrainedTokenizerFast(tokenizer_object=base.backend_tokenizer, eos_token="moved", pad_token="!")
    used(["ved", "Ada moved"], padding=True, truncation=True, max_length=2, split_special_tokens=is_split)
    pieces = aligned(used, ("moved Ada moved", [[0, 5], [6, 9], [10, 15]]), ("ved", [[0, 3]]))
    names = used.convert_ids_to_tokens(pieces.ids[0].tolist())
    assert names == ["m", "o", "ved", "Ada", "Ġmo", "ved"]
    assert pieces.mask.sum(1).tolist() == [6, 1]

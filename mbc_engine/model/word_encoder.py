"""The document side of a model that remembers words: texts become words, their contexts' vectors, and addresses."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from transformers import PreTrainedModel

from mbc_engine.errors import ModelError
from mbc_engine.model.amortizer import EncoderOnly
from mbc_engine.model.salience import Salience, chosen
from mbc_engine.model.text_encoder import TextEncoder
from mbc_engine.model.word_codebook import WordCodebook
from mbc_engine.model.word_pieces import PieceAligner


@dataclass(frozen=True)
class Words:
    """What is remembered of texts, before there are codes.

    Attributes:
        pieces: numbers of word pieces, in the order of the text, [B, W]; 0 where it has no more.
        contexts: what their roles are told by, [B, W, role_dim].
        address: where the texts are found, [B, parts, width].
    """

    pieces: Tensor
    contexts: Tensor
    address: Tensor


class WordAmortizer(EncoderOnly):
    """An encoder-only model and what chooses words by its states.

    Args:
        encoder: a BERT-like model.
        dim: D, the width of the base LM's embeddings.
        words: W.
        role_dim: width of a context's vector.
    """

    def __init__(self, encoder: PreTrainedModel, dim: int, *, words: int, role_dim: int) -> None:
        super().__init__(encoder, words)
        width: int = encoder.config.hidden_size
        self.salience = Salience(width, dim)
        self.told = nn.Linear(width, role_dim)

    def readout(self, states: Tensor, mask: Tensor) -> Tensor:
        """Raises ModelError: words are no continuous vectors."""
        raise ModelError(
            "This model remembers words, which are codes from the start.",
            hint="Models of continuous vectors, such as MAC, are trained: mbc train --set model.quantised=false.",
        )


class WordEncoder(TextEncoder):
    """A `WordAmortizer` with its tokenizer: texts -> words."""

    amortizer: WordAmortizer

    def words_of(self, texts: Sequence[str], aligner: PieceAligner, codebook: WordCodebook) -> Words:
        """The words of texts that are worth remembering.

        Args:
            texts: those that fit the window.
            aligner: cuts them into the base LM's pieces.
            codebook: knows the pieces' vectors and makes addresses.
        """
        own, vocabulary = self.amortizer, codebook.vocabulary
        batch = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.window,
            return_tensors="pt",
            return_offsets_mapping=True,
        ).to(vocabulary.device)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        states = own.contextualise(ids, mask)
        pieces = aligner(texts, batch["offset_mapping"])
        of_pieces = pieces.states(states)
        places = chosen(pieces, own.salience(of_pieces, pieces.ids, vocabulary), own.tokens)
        is_there, places = places >= 0, places.clamp_min(0)
        kept = of_pieces.gather(1, places.unsqueeze(-1).expand(-1, -1, of_pieces.shape[-1]))
        return Words(
            pieces.ids.gather(1, places) * is_there,
            own.told(kept * is_there.unsqueeze(-1)),
            codebook.address.documents(states, mask),
        )

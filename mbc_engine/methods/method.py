"""The interface of a method under evaluation: it memorises documents, answers questions, and reports its memory size.

Also the settings for training base LMs and token weights beforehand.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt

if TYPE_CHECKING:
    from collections.abc import Sequence

STRICT = ConfigDict(extra="forbid", frozen=True)
Rate = Annotated[FiniteFloat, Field(gt=0)]


class QuestionSettings(BaseModel):
    """How a base LM is trained on questions, with or without documents (paper, section 4.3.2)."""

    model_config = STRICT
    epochs: PositiveInt = 8
    batch_size: PositiveInt = 32
    learning_rate: Rate = 1e-4
    precision: Literal["float32", "bf16"] = Field(
        "float32", description="of products in training, and of weights that answer without being fine-tuned"
    )
    most_train: PositiveInt | None = Field(None, description="most training questions")


class CamelsSettings(BaseModel):
    """How CaMeLS' token weights are meta-trained, by Adam."""

    model_config = STRICT
    steps: PositiveInt = 2000
    inner_documents: PositiveInt = Field(6, description="document-question-answer triples of an inner batch")
    inner_batches: PositiveInt = Field(4, description="inner batches whose outer gradients make a step")
    learning_rate: Rate = Field(1e-4, description="of the weight model; 1e-5 in the released code, with more steps")
    inner_rate: Rate = Field(5e-4, description="of the inner update of the base LM")
    locality: FiniteFloat = Field(0.1, ge=0, description="weight of the locality term")


@dataclass(frozen=True)
class MethodAnswer:
    """An answer, and its source documents, best first, by index in the stream; None if the method cannot name any."""

    text: str
    sources: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Footprint:
    """What a method keeps of the documents, in bytes: `on_disk` is everything that has to be stored, as stored.

    `paper_row` is what the paper counts per row of the bank, None for methods whose memory it does not count,
    `paper_fixed` what it counts besides the rows. The released code's bank has one row per question, so a document with
    five questions counts five times.
    """

    on_disk: int
    paper_row: int | None = None
    paper_fixed: int = 0


class Method:
    """A system under evaluation. It sees documents and questions, never a gold answer."""

    def reset(self) -> None:
        """Forget all documents."""

    def adapt(self, documents: "Sequence[str]") -> None:
        """Memorise the next documents of the stream, in order; how a stream is split into calls does not matter."""

    def answer(self, questions: "Sequence[str]") -> list[MethodAnswer]:
        """Answer questions from what was memorised so far; the order of the questions does not matter."""
        raise NotImplementedError

    def footprint(self) -> Footprint:
        return Footprint(on_disk=0)

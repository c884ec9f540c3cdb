"""What figures are drawn from: mini, and the 16 stories and ten questions of `mbc demo`."""

from dataclasses import dataclass
from typing import cast

from mbc_cli.commands.demo import STORIES, Question, pick_questions
from mbc_engine import load_model
from mbc_engine.datasets.newswire import Story, stories
from mbc_engine.model.code_memory import CodeMemory
from mbc_engine.model.scoring import memorise
from mbc_engine.model.word_mbc import WordMBC


@dataclass(frozen=True)
class Told:
    """Stories in a memory of codes, one chunk each.

    Attributes:
        model: mini.
        stories: what was memorised, in order.
        memory: their codes.
        questions: some of what can be asked about them.
    """

    model: WordMBC
    stories: list[Story]
    memory: CodeMemory
    questions: list[Question]


def tell(count: int = STORIES) -> Told:
    """Memorise the first stories of the demo, at most all of them."""
    model = cast("WordMBC", load_model("mini"))
    told = list(stories("test", count, seed=0))
    memory = cast("CodeMemory", memorise(model, [as_text(story) for story in told]))
    return Told(model, told, memory, pick_questions(told))


def as_text(story: Story) -> str:
    """A story as the demo writes it to a file."""
    return f"{story.title}\n\n{story.text}"

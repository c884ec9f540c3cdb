"""Kinds of question that want more than a short span, and answers to them by rule: whole lists, steps, sentences.

`kind_of` tells the kind of a question by its words; `compose` answers it from the passages found. What the rules do not
recognise or do not find is answered like any other question, a "fact", with the span that the reader found.
"""

from collections.abc import Callable, Mapping, Sequence

from mbc_engine.mini.kinds.changes import changed_in, changes_of
from mbc_engine.mini.kinds.comparison import compare_all, compare_two
from mbc_engine.mini.kinds.definitions import defined, said_of_name
from mbc_engine.mini.kinds.forms import Kind
from mbc_engine.mini.kinds.identifiers import identified, said_of_value
from mbc_engine.mini.kinds.lists import one_step, table_column, whole_list
from mbc_engine.mini.kinds.passages import Passage, Reply
from mbc_engine.mini.kinds.quotations import cause, keywords, mentions, several, summary
from mbc_engine.mini.kinds.yes_no import yes_or_no


def compose(
    kind: Kind, question: str, passages: Sequence[Passage], best: int | None, *, is_answered: bool = False
) -> Reply | None:
    """The answer to a question of a kind; `best` is the passage with the likeliest span. None: as for a fact.

    Key words get a list of that name, or the line with a name of these words, or else sentences unless the reader's span
    `is_answered` enough.
    """
    rules: Mapping[Kind, Callable[[], Reply | None]] = {
        "list": lambda: (
            changes_of(question, passages)
            or table_column(question, passages, best)
            or whole_list(kind, question, passages, best)
        ),
        "definition": lambda: (
            defined(question, passages) or said_of_value(question, passages) or said_of_name(question, passages)
        ),
        "identifier": lambda: identified(question, passages),
        "steps": lambda: whole_list(kind, question, passages, best),
        "step": lambda: one_step(question, passages, best),
        "cause": lambda: None if best is None else cause(question, passages[best]),
        "summary": lambda: summary(question, passages),
        "mentions": lambda: mentions(question, passages),
        "keywords": lambda: (
            defined(question, passages)
            or whole_list(kind, question, passages, None)
            or identified(question, passages)
            or (None if is_answered else keywords(question, passages))
        ),
        "several": lambda: several(question, passages),
        "yes_no": lambda: yes_or_no(question, passages, best),
        "change": lambda: changed_in(question, passages) or said_of_name(question, passages),
        "comparison": lambda: compare_two(question, passages) or compare_all(question, passages),
    }
    return rules[kind]() if kind in rules else None

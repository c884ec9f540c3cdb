"""The form in which questions are encoded, so that a missing question mark or capitals change nothing."""

import re
from typing import Final

_STRAIGHT: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u201a\u02bc", "'") | dict.fromkeys("“”„«»", '"'))
# White space and punctuation at either end, with the signs of Spanish, Arabic and Chinese.
_START: Final = re.compile(r"^[\s¿¡]+")
_END: Final = re.compile("[\\s?!.…؟\uff1f\uff01。]+$")


def canonical_question(question: str) -> str:
    """A question in lower case with single spaces, straight quotes and one question mark at its end.

    The encoders see no capitals anyway, but their tokenizer takes "[SEP]" for a token of its own, and "[sep]" for text.
    """
    text = question.lower().translate(_STRAIGHT)
    return f"{' '.join(_END.sub('', _START.sub('', text)).split())}?"

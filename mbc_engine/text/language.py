"""Whether a text is in English, by its script and the commonest words of a few languages; the form of a question."""

import re
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]+")


def word_set(listed: str) -> frozenset[str]:
    """The words of a list that spaces separate."""
    return frozenset(listed.split())


ENGLISH: Final = word_set(
    "a about after all an and any are as at be been but by can could did do does for from had has have he her his how i if "
    "in into is it its my no not of on or our out over she so than that the their them there they this to up was we were "
    "what when where which who whom whose why will with would you your"
)
_ENGLISH_ALONE: Final = ENGLISH - word_set("a an as do i in is no of on so was we")
# German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Polish and Turkish.
_FOREIGN: Final = word_set(
    "aber als auch auf aus bei beim bin bist dass dem denn doch durch ein eine einem einen einer eines er es gibt haben "
    "hatte heißt ich ihr im ist kann kein keine mehr mit nach nicht noch nur oder schon sein seine seit sich sie sind über "
    "und uns unter viele vom wenn werden wieder wird wohin wurde wurden zu zum zur zwischen "
    "alors au aussi aux avait avec avez avoir ce ces cette dans depuis dont elle elles entre est été être fait il ils je "
    "leur leurs lui mais même ne nous ou par parce pas plus que sans ses sont sur une vous "
    "con desde donde él ella ellos era está están esta este fue fueron hay más muy nació para pero por porque sin sobre su "
    "sus también tiene uno anche che come cosa della delle degli dei gli hanno loro nel nella più questa questo sono stato "
    "ao aos com foi mais muito não nas nos pelo pela são seu sua também uma você "
    "aan bij dan dat deze dit een geen heeft het hij hoe ik maar met naar niet nog om ook op te tot uit voor waar wat wel "
    "wordt ze zijn att det där är och inte jag när som till på av med czy jak jest nie się bir için"
)
_ASKING: Final = word_set(
    "wer wo wann warum wieso wie wieviel welche welcher welches woher qui quoi quel quelle quels quelles quand où pourquoi "
    "combien quién quiénes qué cuándo dónde cómo cuál cuánto cuánta cuántos cuántas perché quale quando quanto quanti "
    "quem qual onde hoeveel waarom wanneer welke hvor hvem hvad vem hur varför kto gdzie kiedy dlaczego nerede"
)
# So are these, but names and English have them as well: they only count beside others.
_AMBIGUOUS: Final = word_set(
    "comment da das de del den der des di die do du el en et hat im la las le les los son un van von war y"
)
_FEW: Final = 2
_SHARE: Final = 0.1
_LONGEST: Final = 4_000  # characters


def seems_english(text: str) -> bool:
    """Whether a question or a document may well be English, as are names, code and numbers alone.

    False in another script; with at least two common words of other languages, a tenth of all and twice those of
    English; and where the first word asks in another language and no word is English alone.
    """
    text = text[:_LONGEST].lower()
    words = _WORD.findall(text)
    english = sum(word in ENGLISH for word in words)
    others = sum(character > "\u024f" for word in words for character in word)
    latin = sum(map(len, words)) - others
    # A sign of Chinese or Japanese is as much as a few letters.
    if others >= _FEW and others * (1 if english else 3) > latin:
        return False
    certain = any(word in _ENGLISH_ALONE for word in words)
    if words and not certain and (text.lstrip().startswith("¿") or words[0] in _ASKING):
        return False
    sure = sum(word in _FOREIGN or word in _ASKING for word in words)
    foreign = sure + sum(word in _AMBIGUOUS for word in words)
    return not (sure and foreign >= max(_FEW, _SHARE * len(words)) and foreign > 2 * english)


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

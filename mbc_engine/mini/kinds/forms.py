"""Tells the kind of a question by its words, and how many passages each kind takes."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from mbc_engine.bank.words import OPTION, SETTING
from mbc_engine.mini.word_matching import ORDINALS
from mbc_engine.text.language import AUXILIARIES, QUESTION_WORDS, canonical_question

Kind = Literal[
    "fact",
    "keywords",
    "definition",
    "identifier",
    "list",
    "step",
    "steps",
    "cause",
    "summary",
    "mentions",
    "several",
    "yes_no",
    "comparison",
    "change",
]

NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
ANY_ORDINAL: Final = rf"(?:{'|'.join(ORDINALS)}|last|final|\d+(?:st|nd|rd|th))"
STEP: Final = re.compile(rf"\b({ANY_ORDINAL}) step\b|\bstep (?:number |no\. ?)?(\d+|{'|'.join(NUMBERS)})\b")
ANY_AUXILIARY: Final = rf"(?:{'|'.join(sorted(AUXILIARIES))})"
_ANY_QUESTION_WORD: Final = rf"(?:{'|'.join(sorted(QUESTION_WORDS))})"
_YOU: Final = r"(?:i|we|you|one|someone|people|an? (?:\w+ )?\w+)"
# Words in -s or before a noun that "which" and "what" do not ask for several of.
_NO_PLURAL: Final = (
    rf"(?:(?:{ANY_AUXILIARY}|the|an?|of|in|on|at|"
    r"to|for|by|made|this|its|his|us|gas|bus|lens|news|series|happens|causes|makes|means|becomes|comes|costs|takes|says|"
    r"lets|goes|keeps|gives|holds|needs|looks|works|runs)\b)"
)
_PLURAL: Final = rf"(?!{_NO_PLURAL})(?:\w+[^\Wsui]s|people|children|men|women)"
_NOTES: Final = (
    r"(?:notes?|files?|documents?|articles?|pages?|papers?|e-?mails?|messages?|letters?|minutes|reports?|news)"
)
_WORKS: Final = (
    r"(?:complaint|talk|lecture|essay|book|story|film|meeting|conversation|contract|agreement|chapter|course|project)"
)
# Comparatives, each with what the sentence has to speak of, and whether the larger number has it.
CUES: Final = {
    **{f"{word}er": (word, True) for word in ("tall", "high", "long", "deep", "fast", "warm", "great", "strong")},
    "bigger": ("", True), "larger": ("", True), "wider": ("wide", True), "heavier": ("weigh|heavy", True),
    "older": ("born|built|founded|old", True), "younger": ("born|built|founded|old", False), "newer": ("built|founded|old", False),
    "more": ("", True), "later": ("", True), "less": ("", False), "fewer": ("", False), "smaller": ("", False),
    "cheaper": ("", False), "lower": ("low|high", False), "earlier": ("", False), "slower": ("", False),
    "shorter": ("tall|long|short", False), "lighter": ("weigh|light", False), "colder": ("cold", False),
}  # fmt: skip
# Of years, and of times that something takes, the smaller has these.
OF_AGE: Final = ("older", "younger", "newer")
OF_SPEED: Final = ("faster", "slower")
COMPARATIVE: Final = rf"\b(?:{'|'.join(CUES)})\b"
# What has a name in a program.
IDENTIFIED: Final = r"(?:function|method|class|variable|constant|macro|struct|enum|interface)"
_OF_WHAT: Final = rf"(?: {SETTING})?(?: (?:in|of|for) [\w.-]+)?"
_GIVE: Final = r"^(?:please )?(?:give (?:me|us) )?(?:an? |the )?(?:short |brief |quick )?"
_IN_SHORT: Final = r"(?:,? (?:briefly|in short)|[,;:?] (?:short|brief|quick) summary)"
_CHANGED: Final = r"(?:add|introduce|remove|drop|fix|deprecate|rename|change|replace|release|publish)(?:p?ed|d)?"
_DECIDED: Final = r"^what (?:was|were|has been) (?:decided|agreed|discussed|said|planned)"
# Words that only say that a summary is wanted.
ONLY_SUMMARY: Final = re.compile(rf"{_GIVE}(?:gist|main points)\b|{_IN_SHORT}\W*$|{_DECIDED}\b", re.IGNORECASE)
# Tried in this order on the question in lower case, without its question mark.
_FORMS: Final[Sequence[tuple[Kind, str]]] = (
    ("mentions", rf"^(?:in )?(?:which|list|show|find|what {_NOTES})\b.*\b{_NOTES} (?:\w+ )?(?:mention|talk|speak|(?:is|are) (?:about|on|from)\b|say|contain|refer|discuss|deal|cover|have|do i have)"),
    ("summary", rf"^what (?:do|does|did) (?:\w+ ){{0,3}}{_NOTES} (?:\w+ )?(?:say|tell|know|have)\b|^what is (?:known|said|written|new) (?:about|on|of|in|at)\b"),
    ("summary", r"^what(?: has|'s| is| else)? (?:happened|happens|happening|took place|went on)\b(?! (?:if|when)\b).*\w|^what do (?:i|we|you) (?:know|have) (?:about|on|of)\b"),
    ("summary", r"^(?:please )?(?:(?:tell|remind) (?:me|us) (?:more |all |something )?(?:about|of|what happened)|summari[sz]e|sum up|describe|outline)\b"),
    ("summary", rf"{_GIVE}(?:summary|overview|outline|gist|main points) (?:of|on|about)\b|[,;:?] (?:short|brief|quick) summary$"),
    ("summary", rf"^what (?:is|are|was|were) (?:the|this|that|my|our|his|her|an?) (?:\w+ )*?(?:{_NOTES}|{_WORKS})(?: (?:to|from|of|by|in|with|at|between) .*)? about(?:,? (?:briefly|in short|please))?$"),
    ("summary", rf"{_DECIDED} (?:about|on|at|in|by|for|with)\b."),
    ("definition", rf"^what (?:does|do) (?:the )?(?:[\w-]+ )?(?:{OPTION.pattern}|[\w.-]+(?= {SETTING}\b)|\w*[^\W_]_\w+){_OF_WHAT} (?:do|mean|stand for)\b|^what(?:'s| is) (?:the )?(?:[\w-]+ )?{OPTION.pattern}{_OF_WHAT}(?: (?:used )?for)?(?: in [\w.-]+)?$"),
    ("definition", r"^what(?:'s| is) the default(?: (?:value|setting))?(?: (?:of|for))?(?: the)? (?!-)[\w.$]+(?: (?:in|of|for) [\w. -]+)?$"),
    ("definition", r"^(?:what|which type)(?: type)? does (?:the )?[\w.$]+(?:\(\))?(?: function| method)? (?:return|throw|raise)s?\b"),
    ("change", rf"^(?:when (?:did|was|were|has|have)|(?:in |since |from |with )?(?:which|what) (?:[\w.-]+ ){{0,2}}(?:version|release)s?)\b.*\b{_CHANGED}\b"),
    ("identifier", rf"^(?:which|what) {IDENTIFIED}\b(?! of\b)|^where (?:is|are) .+ (?:\w+ed|set|read|written|built|made|sent|run|kept)$"),
    ("comparison", rf"^(?=.* or )(?=.*{COMPARATIVE})(?:who|which|what|where|{ANY_AUXILIARY})\b|^(?:compare|(?:what (?:is|are) )?(?:the )?differences? between|how (?!do (?:i|we|you) )(?:do|does|did|is|are) .* (?:differ|compare|different)(?: from| to| with))\b"),
    ("step", STEP.pattern),
    ("steps", rf"^how (?:to|(?:do|does|can|should|must|would|could) {_YOU})\b|^(?:what|which|list|show).* (?:steps|instructions)\b"),
    ("cause", r"^(?:why|how come|for what reason|what (?:is|was|were) the reasons?)\b"),
    ("list", r"^(?:list|name|enumerate|(?:show|give) me|what are|who are|who were) (?:all (?:of )?)?(?:the|every|my|our|its)\b"),
    ("list", rf"^what (?:all |else |still )?(?:(?:do|should|must|shall|can) {_YOU} (?:still )?(?:have to |need to )?(?:need|bring|pack|buy|take|wear|do)|(?:does|did|should|must) [\w'\u2019]+ (?:have to |need to )?(?:need|bring|pack|wear)|goes in(?:to)?|(?:needs|has) to be done|is (?:still )?(?:left|open|to do))\b"),
    ("list", r"^what(?: was| were| is|'s| has been)? (?:added|fixed|changed|removed|deprecated)\b"),
    ("list", r"^who (?:all |else )?(?:attended|participated|took part|came to|(?:was|were|is|are) (?:all )?(?:present|there|invited|coming|attending|absent))\b"),
    ("yes_no", rf"^(?!.* or )(?:(?!.*\b{_ANY_QUESTION_WORD}\b).*, )?{ANY_AUXILIARY}(?:n't)? (?!i am|have|has|be)[^\s,;:]+ \w+"),
    ("several", r"^(?:who|what|where|when) (?:(?:else|ever|just|has|have|was|were|got|did|people|they) )?(?!is\b|are\b|am\b|happen)\w+$"),
    ("list", rf"^(?:(?:at|in|on|for|from|with|of) )?(?:which|what) (?:(?!{_NO_PLURAL})\w+ ){{0,2}}?{_PLURAL}\b"),
)  # fmt: skip


def kind_of(question: str) -> Kind:
    """The kind of a question; "fact" unless its words tell another."""
    text = canonical_question(question)[:-1]
    for kind, form in _FORMS:
        match = re.search(form, text)
        is_name = match and kind == "list" and match[0].rsplit(maxsplit=1)[-1].capitalize() in question.split()[1:]
        if match and not is_name:  # which Giants player
            return kind
    asks = question.rstrip().endswith("?") or not (QUESTION_WORDS | AUXILIARIES).isdisjoint(
        text.replace("'s", " ").split()
    )
    return "fact" if asks else "keywords"


# How many of the passages found are looked at; the reader has read the first few.
LOOKED_AT: Final[Mapping[Kind, int]] = {
    "list": 24, "mentions": 24, "definition": 24, "identifier": 8, "summary": 12, "several": 10, "comparison": 8, "change": 8, "keywords": 6, "yes_no": 6, "cause": 6, "step": 6, "steps": 6
}  # fmt: skip
# Of these, the reader reads so many to find an answer in each, if no passage has all: `compose` them as "several".
READ: Final[Mapping[Kind, int]] = {"several": 10, "list": 8}

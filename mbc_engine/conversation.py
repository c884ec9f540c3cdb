"""Rule-based completion of follow-up questions in a conversation, from the previous question and its answer.

A pronoun without an antecedent in its question is replaced by what it refers to, if the kind fits: a person for "she",
a place for "there". A question without a verb ("and when?", "what about Belgium?") takes the rest of the previous
question. If the rules are unsure, the content words of that question are added, which is enough to find the passage. A
standalone question is left unchanged.

Several questions on one line are a conversation too, whose answers are joined.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from mbc_engine.answer import Answer, AnswerItem
from mbc_engine.text.dates import DAY_OF_MONTH, days_in
from mbc_engine.text.document import MONTH_NAMES
from mbc_engine.text.language import AUXILIARIES, QUESTION_WORDS, word_set

_BEING: Final = word_set("am are is was were be been has have had")
_AUXILIARIES: Final = _BEING | AUXILIARIES
_PLACED: Final = word_set("at from in inside into near of off on onto outside through to")
_PREPOSITIONS: Final = _PLACED | word_set(
    "about across after against along among around as before behind below beside between beyond by despite down during "
    "except for over per since than till toward towards under until up upon versus via with within without"
)
_CLAUSES: Final = word_set(
    "after and because before but if or since so than that though until when where which while who"
)
_PEOPLE: Final = {word: kind for kind in ("he him his", "she her hers") for word in kind.split()}
_PRONOUNS: Final = _PEOPLE | {word: kind for kind in ("it its", "they them their theirs") for word in kind.split()}
_POSSESSIVES: Final = word_set("his her hers its their theirs")
_DEMONSTRATIVES: Final = word_set("that this these those")
_OTHERS: Final = word_set(
    "a an the i me my we us our you your there then not no any some much many more most less few also else ever exactly "
    "precisely one ones other another all both each today now ago s t"
)
_DETERMINERS: Final = word_set("a an the my our your his her its their this that these those")
_FUNCTION: Final = (
    _AUXILIARIES | QUESTION_WORDS | _PREPOSITIONS | _CLAUSES | _DEMONSTRATIVES | _OTHERS | frozenset(_PRONOUNS)
)
_RELATIVES: Final = word_set(
    "brother sister mother father parents wife husband partner son daughter children uncle aunt cousin friend colleague"
)
# Common verbs; others are recognised only by their -ed.
_VERBS: Final = word_set(
    "ask attend become begin believe belong born bring build buy call change choose come create die direct drive earn end "
    "find found get give go happen held join kill know last lead learn leave like live look lose lost make mean meet move "
    "need open own pay play produce publish receive run save say see sell send serve show start stay stop take talk teach "
    "tell think try use visit want wear win work write began bought came got led left made met paid ran said sold told took "
    "went won wrote broken built chosen done given known seen taken written"
)
_FIGURES: Final = word_set(
    "address age colour cost date deposit depth email fee height length name number phone place price rent size time weight "
    "width"
)
_PAST: Final = re.compile(r"\w{2,}(?<!e)ed")  # not bed, nor seed
_PREDICATES: Final = word_set("available due empty free full late necessary open possible ready valid")  # is it open
_PERSON: Final = re.compile(r"(?:who|whom)\b|(?:which|what) .*(?:man|or|er|ist|ian)$")
_NAMED: Final = re.compile(r"\b(?:name of|called|named)\b", re.IGNORECASE)
_TIME: Final = re.compile(
    r"\b(?:(?:in|since|by|during|before|after) )?(?:(?:1\d|20)\d\d|(?:this|last|next) (?:year|month|week|season)|"
    r"to(?:day|morrow|night)|now|yesterday)\b",
    re.IGNORECASE,
)
# When was it at its lowest, and how low was it?
_EXTREME: Final = re.compile(r"\bat (?:its|their) (?P<how>\w+)est\b", re.IGNORECASE)
_HOW_MUCH: Final = re.compile(r"(?:what|how (?P<how>\w+)) (?:was|were|is|are) (?:it|they|that)", re.IGNORECASE)
_NOT_REFERRING: Final = re.compile(r"year|month|week|day|time|kind|type|sort")  # after "this"
_IN_MAY: Final = re.compile(r"\b(?:in|of|by|since|until|\d\d?) may$")
_ORDINAL: Final = re.compile(r"\b(?:first|second|third|fourth|fifth|last|next|other|1st|2nd|3rd)\b", re.IGNORECASE)
_SUPERLATIVE: Final = re.compile(
    r"\b(?:(?:most|least) \w+|(?!(?:\w*(?:terest|quest|harvest|priest|budapest)|(?:north|south|mid)?west|"
    r"(?:con|pro)?test|forest|rest|guest|chest|honest|modest|arrest)\b)\w{2,}est)\b",
    re.IGNORECASE,
)
_KIND: Final = re.compile(r"\bthe (?P<kind>\w+)(?= (?P<thing>\w+))", re.IGNORECASE)
_OF_KIND: Final = re.compile(r"the (?P<kind>(?!other\b)\w+) ones?", re.IGNORECASE)  # the red one
_NEXT_DAY: Final = re.compile(
    r"(?:on )?the (?:(?P<after>day after|(?:next|following) day)|day before|previous day)", re.IGNORECASE
)
_OWNED: Final = re.compile(r"of (?:the|an?|my|our) \S", re.IGNORECASE)
_JOINED: Final = re.compile(r"(?:(?:and|but|or|so|ok|okay)\b,? *)+", re.IGNORECASE)
_ABOUT: Final = re.compile(r"(?:what|how) about +", re.IGNORECASE)
# What follows an "it" that refers to nothing.
_EXPLETIVE: Final = re.compile(
    r"(?:true|possible|legal|illegal|important|necessary|safe|likely|common|raining|snowing|rain|snow)\b|"
    r"(?:takes?|took|means?|costs?|from)\b.*\bto\b|(?:make|difficult|easy|hard)\b|called \w"
)
_FEW: Final = 4
_LONGEST_ANSWER: Final = 10
# In characters; a longer question is neither completed nor referred to.
_LONGEST_QUESTION: Final = 1000
_END: Final = " ?!.…"

Span = tuple[int, int]


# What asks nothing, and what to say to it.
_SMALL_TALK: Final = {
    re.compile(rf"(?:{said})(?: (?:there|all|everyone|so much|very much|a lot|again))?", re.IGNORECASE): reply
    for said, reply in (
        (
            "hello|hi|hey|moin|hallo|guten (?:tag|morgen)|good (?:morning|afternoon|evening)",
            "Hello! What would you like to know?",
        ),
        ("(?:ok(?:ay)?,? )?(?:(?:many )?thanks|thank you|thx|cheers|danke|vielen dank|merci)", "You are welcome."),
        ("ok|okay|all right|alright|great|perfect|good|nice|cool|fine|super|got it|i see", "All right."),
        ("bye|goodbye|good ?bye|good night|see you|ciao|tsch\u00fcss", "Goodbye."),
    )
}


def reply_to(line: str) -> str | None:
    """What to say to a line that asks nothing, as "thanks"; None if it may be a question."""
    said = " ".join(line.split()).strip(f"{_END},:)")
    return next((reply for form, reply in _SMALL_TALK.items() if form.fullmatch(said)), None)


def is_small_talk(line: str) -> bool:
    """Whether a line asks nothing, or replies to one that does not."""
    return reply_to(line) is not None or line in _SMALL_TALK.values()


def rewritten(question: str, before: str, answer: str | None) -> str:
    """The question as a standalone one, given the complete question `before` it and its answer, if there was one."""
    text = question.strip()
    joined = _JOINED.match(text)
    rest = text[joined.end() :] if joined else text
    about = _ABOUT.match(rest)
    words = (rest[about.end() :] if about else rest).rstrip(_END).split()
    is_whole = not words or not before.strip() or is_small_talk(question)
    if is_whole or max(len(question), len(before)) > _LONGEST_QUESTION:
        return question
    previous = _PreviousTurn(before, answer)
    if how_much := _how_much(" ".join(words), previous):
        return f"{how_much}?"
    if references := _referring(words):
        return f"{_resolved(words, references, previous, is_fragment=about is not None)}?"
    if about or _is_fragment(words, is_joined=joined is not None):
        return f"{_completed(words, previous)}?"
    if joined and not _names(words) and not _is_alike(words, previous.words):
        return f"{_with_content(words, previous)}?"
    return question


def _how_much(question: str, previous: "_PreviousTurn") -> str | None:
    """What was most or least, if the question before asked when, and this how much it was."""
    extreme, asking = _EXTREME.search(" ".join(previous.words)), _HOW_MUCH.fullmatch(question)
    if not extreme or not asking or not previous.has_auxiliary:
        return None
    is_same = asking["how"] is None or extreme["how"].startswith(asking["how"].lower())
    return f"what {' '.join(previous.rest)}" if is_same else None


# Where one question ends and the next begins.
_NEXT: Final = re.compile(
    rf"\?\s+(?:and\b,? )?(?=\w)|,? and (?=(?:(?:at|by|for|from|in|on|since|to|with) )?(?:{'|'.join(sorted(QUESTION_WORDS))})\b)",
    re.IGNORECASE,
)
_MOST_QUESTIONS: Final = 8


def questions_in(line: str) -> list[str]:
    """The questions on a line, if each begins like one and the first is whole; else the line as it is."""
    parts = [part for each in _NEXT.split(line[:_LONGEST_QUESTION]) if (part := each.strip(_END))]
    begin = [[*map(_normalised, part.split())] for part in parts]
    are_questions = all(
        words[words[0] in _PREPOSITIONS and len(words) > 1]
        in (QUESTION_WORDS | _AUXILIARIES if words[1:] else QUESTION_WORDS)
        for words in begin
    )
    first = begin[0] if begin else []
    has_verb = any(word in _AUXILIARIES or _is_verb(word) for word in first)
    is_whole = len(first) > _FEW or has_verb or (first[:1] == ["who"] and not _FUNCTION.issuperset(first[1:2]))
    are_questions &= is_whole and bool(first[2:] or all(words[1:] for words in begin))
    return [f"{part}?" for part in parts] if 1 < len(parts) <= _MOST_QUESTIONS and are_questions else [line]


def joined(question: str, answers: Sequence[Answer]) -> Answer:
    """The answers to the questions in `question`, a line each; as sure as the least sure of them."""
    lines = [
        f"{own.question} {'perhaps ' * own.tentative}{'not in this memory' if own.text is None else own.text}"
        for own in answers
    ]
    found = [own.items[0].source if own.items else next(iter(own.sources), None) for own in answers]
    sources = {(source.bank, source.path, source.part): source for own in answers for source in own.sources}
    seconds = sum((Counter(own.seconds) for own in answers), Counter[str]())
    known = [own for own in answers if own.text is not None]
    rated = [(own.confidence, own.extracted or own.text) for own in known if own.confidence]
    confidence, extracted = min(rated, key=lambda one: one[0].probability, default=(None, None))
    written_by = next((own.written_by for own in known if own.written_by), None)
    missing = dict.fromkeys(bank for own in answers for bank in own.missing_banks)
    return replace(
        answers[0],
        question=question,
        text="\n".join(lines) if known else None,
        confidence=confidence,
        extracted=extracted if written_by else None,
        written_by=written_by,
        tentative=bool(known) and all(own.tentative for own in known),
        items=tuple(AnswerItem(line, source) for line, source in zip(lines, found, strict=True) if source and known),
        sources=tuple(sources.values()),
        seconds=seconds,
        missing_banks=tuple(missing),
    )


class _PreviousTurn:
    def __init__(self, question: str, answer: str | None) -> None:
        self.words = question.strip().rstrip(_END).split()
        asking = _asking(self.words)
        self.asks = " ".join(map(_normalised, self.words[:asking]))
        self.rest = self.words[asking:]
        self.has_auxiliary = bool(self.rest) and _normalised(self.rest[0]) in _AUXILIARIES
        self.names, self._start = _names(self.words), asking
        answer_words = (answer or "").rstrip(" .").split()[:_LONGEST_ANSWER]
        self.answer = " ".join(answer_words)
        # The longest name, the first of several: Fuad Basya in Major general Fuad Basya.
        names = [_phrase(answer_words, span) for span in _names(answer_words, is_start=False)]
        self.answer_name = max(names, key=lambda name: len(name.split()), default="")

    @property
    def content(self) -> str:
        return " ".join(word for word in self.words if _normalised(word) not in _FUNCTION)

    @property
    def phrases(self) -> list[Span]:
        """Possible subjects and objects, in order: runs of words between verbs, prepositions and the like."""
        bare, spans = [*map(_normalised, self.words), ""], list[Span]()
        start = self._start + bool(self._start and not self.has_auxiliary)  # "who" or "how many" is followed by a verb
        has_verb = not self.has_auxiliary or bare[start] in _BEING
        for index in range(start, len(self.words)):
            is_verb = _is_verb(self.words[index]) or (bare[index - 1] == "to" and bare[index + 1] in _FUNCTION)
            has_verb = has_verb or is_verb or (index > start and bare[index] in _BEING)
            is_label = bare[index] == "a" and not bare[index + 1] and bool(spans)  # flat a
            is_said = bare[index] in _PREDICATES and bare[start] in _BEING and index > start + 1
            if is_verb or is_said or not bare[index] or (bare[index] in _FUNCTION and not is_label):
                continue
            if spans and spans[-1][1] == index and not self.words[index - 1].endswith((",", ";")):
                spans[-1] = spans[-1][0], index + 1
            else:
                spans.append((index, index + 1))
        if not has_verb and spans and spans[0][1] - spans[0][0] > 1:  # its last word is the verb: did the capsule land
            spans[0] = spans[0][0], spans[0][1] - 1
        return spans

    def _named(self, span: Span) -> str:
        """A subject or object with its article, and the name after it that tells which: the lighthouse of Ostvik."""
        start, end = span
        has_article = start > 0 and _normalised(self.words[start - 1]) in _DETERMINERS
        is_placed = _normalised("".join(self.words[end : end + 1])) in ("of", "in", "at")
        last = next((last for first, last in self.names if is_placed and first == end + 1), end)
        return _phrase(self.words, (start - has_article, last))

    def antecedent(self, kind: str) -> str:
        """What a pronoun of this kind, "there" or "then" refers to; "" if unsure."""
        if kind == "then":
            is_year = re.fullmatch(r"\d{4}", self.answer)
            return f"in {self.answer}" if is_year else self.answer if re.search(r"\d", self.answer) else ""
        phrases = [_phrase(self.words, span) for span in self.phrases]
        spans = [span for span in self.names if span[0] >= self._start]
        names = [_phrase(self.words, span) for span in spans]
        places = [_phrase(self.words, span) for span in spans if _normalised(self.words[span[0] - 1]) in _PLACED]
        is_person = bool(_PERSON.match(self.asks))
        is_named = self.asks.startswith(("what ", "which ")) or bool(_NAMED.search(" ".join(self.words)))
        answered = [self.answer_name] if self.answer_name else []
        if kind == "there":
            is_place = self.asks.endswith("where") or (is_named and not is_person)
            places = [*(answered if is_place else []), *places[-1:]]
            return f"in {places[0]}" if places else ""
        is_plural = kind.startswith("they")
        if kind in _PEOPLE.values():
            is_answer = is_person or (is_named and not names)
            owners = [word[:-2] for word in self.words if word.islower() and word.endswith(("'s", "\u2019s"))]
            whose = [phrase for phrase in phrases if f" {phrase} of " not in " ".join(self.words)]
            others = [*(name for name in names if name not in places), *names, *owners, *whose, *phrases]
            others = [""] if is_person and not answered else others
        else:
            is_answer = is_plural if is_person else is_named and not re.search(r"\d", self.answer)
            answered = [self.answer] if answered and not is_person and len(self.answer.split()) <= _FEW else answered
            is_counted = is_plural and self.asks.startswith("how many ") and self.rest
            counted = ["the", *self.words[2 : self._start], "that", *self.rest[self.has_auxiliary :]]
            others = [" ".join(counted)] if is_counted else []
            spans = [span for span in self.phrases if _is_plural(_phrase(self.words, span)) == is_plural] + self.phrases
            # The tower, of the height of the tower; but the meeting, of when the meeting of the board is.
            is_figure = not self.asks.endswith(("when", "where", "why"))
            owning = [span for span in spans if is_figure and _OWNED.match(" ".join(self.words[span[1] :]))]
            spans = [span for span in spans if span not in owning] + owning
            others += [self._named(span) for span in spans]
        return next(iter([*(answered if is_answer else []), *others]), "")


def _normalised(word: str) -> str:
    """A word in lower case, without punctuation and contractions: "Who's" is "who"."""
    plain = word.lower().replace("\u2019", "'").strip(".,;:?!\"'()“”")
    return re.sub(r"^(who|what|where|when|how)s$|'(?:s|re)$", r"\1", plain)


def _phrase(words: Sequence[str], span: Span) -> str:
    return re.sub(r"['\u2019]s?$", "", " ".join(words[slice(*span)]).strip(',;:?!."()'))


def _is_short(word: str) -> bool:
    """Whether a word has a verb in it, as "who's"; not whether it is of somebody, as "Ada's"."""
    return "'s" in word.replace("\u2019", "'") and _normalised(word) in _FUNCTION


def _is_verb(word: str) -> bool:
    return word[:1].islower() and (_normalised(word) in _VERBS or _PAST.fullmatch(_normalised(word)) is not None)


def _is_plural(phrase: str) -> bool:
    last = phrase.rsplit(maxsplit=1)[-1]
    return last.islower() and last.endswith("s") and not last.endswith(("ss", "us", "is"))


def _asking(words: Sequence[str]) -> int:
    """The number of words in the opening question phrase: "In which city", "How many pages", "Who"."""
    start = int(bool(words) and _normalised(words[0]) in _PREPOSITIONS)
    question_word = _normalised(words[start]) if start < len(words) else ""
    if question_word not in QUESTION_WORDS:
        return 0
    if question_word not in ("what", "which", "whose", "how") or start + 1 == len(words):
        return start + 1
    for end in range(start + 1, min(len(words), start + 6)):
        if _normalised(words[end]) in _AUXILIARIES or _is_verb(words[end]):
            return end
    counts = _normalised(words[start + 1]) in ("many", "much")
    return start + (1 if question_word == "what" else 3 if counts else 2)


def _names(words: Sequence[str], *, is_start: bool = True) -> list[Span]:
    """Runs of capitalised words, with numbers after them; "Did" and the like opening a question do not count."""
    spans: list[Span] = []
    for index, word in enumerate(words):
        inner, is_function = word.lstrip("#@\"'(“"), _normalised(word) in _FUNCTION
        is_acronym = inner == inner.upper() and len(inner) > 1 and not (is_start and index == 0)
        is_name = any(map(str.isupper, inner)) and (not is_function or is_acronym)
        runs_on = bool(spans) and spans[-1][1] == index and not words[index - 1].endswith((",", ";", ":"))
        is_link = _normalised(word) in ("of", "for", "the", "de", "&", "@") and any(
            map(str.istitle, words[index + 1 : index + 2])
        )
        if runs_on and (is_name or is_link or inner[:1].isdigit()):
            spans[-1] = spans[-1][0], index + 1
        elif is_name:
            spans.append((index, index + 1))
    return spans


def _referring(words: Sequence[str]) -> list[int]:
    """The indices of words that refer to something outside their question, the first of each kind."""
    references: dict[str, int] = {}
    bare = [*map(_normalised, words), ""]
    for index, word in enumerate(bare[:-1]):
        previous, after = bare[index - 1] if index else "", bare[index + 1]
        if word in _PRONOUNS:
            is_title = bool(index) and words[index].istitle()  # Let It Be
            if not is_title and not _is_expletive(bare, index) and not _has_antecedent(words, index):
                references.setdefault(_PRONOUNS[word], index)
        elif word == "there":
            exists = previous in _BEING and (previous not in ("was", "were") or bare[:2] == ["how", "many"])
            if not exists and after in {"", "then", "now", *_PREPOSITIONS, *_CLAUSES}:
                references.setdefault(word, index)
        elif word == "then" and index and not after:
            references.setdefault(word, index)
        elif word in _DEMONSTRATIVES:
            ends = after in {"", *_AUXILIARIES, *_PREPOSITIONS}
            begins = not index or previous in _AUXILIARIES | _PREPOSITIONS | _VERBS
            if (ends and begins) or (index and word != "that" and after and not _NOT_REFERRING.match(after)):
                references.setdefault("that", index)
    return sorted(references.values())


def _is_expletive(bare: Sequence[str], index: int) -> bool:
    """Whether a pronoun refers to nothing, or to what follows: is it true that; what time is it; why is it called X."""
    after = " ".join(bare[index + 1 :]).strip()
    is_clock = not after and bare[0] == "what" and bare[1] in ("time", "day", "date")
    return bool(bare[index] == "it" and (is_clock or _EXPLETIVE.match(after)))


def _has_antecedent(words: Sequence[str], index: int) -> bool:
    """Whether a pronoun may refer to something in its question: an object never refers to the subject of its clause."""
    bare, start = [*map(_normalised, words), ""], _asking(words)
    word, previous, after = bare[index], bare[index - 1], bare[index + 1]
    comma = next((n for n in range(index, len(words)) if words[n].endswith(",")), len(words))
    if _names(words[comma + 1 :], is_start=False) or (word == "they" and _names(words)):
        return True  # in its time, what did Rome do; what do they speak in Rome
    content = [n for n in range(start, index) if bare[n] not in _FUNCTION]
    owns = word in _POSSESSIVES and bool(after) and after not in _FUNCTION
    is_subject = word in ("he", "she", "they") or (
        word == "it" and (after in _AUXILIARIES or previous in _AUXILIARIES | _CLAUSES)
    )
    if not owns and not is_subject:
        return len(content) >= _FEW or (bool(content) and any(other in _CLAUSES for other in bare[content[0] : index]))
    if 0 < start < index and bare[start] not in _AUXILIARIES:  # who said that she; who lost his seat
        return is_subject or len(words) > _FEW
    return bool([n for n in content if not (owns and previous == "of" and n == index - 2)])  # the name of her father


def _is_fragment(words: Sequence[str], *, is_joined: bool) -> bool:
    """Whether a question has no verb: when, how long, for whom, in 2019; after "and", also a name."""
    bare = list(map(_normalised, words))
    if _TIME.fullmatch(" ".join(bare)):
        return True
    of_month = _IN_MAY.search(" ".join(bare))
    auxiliaries = _AUXILIARIES - {"may"} if of_month else _AUXILIARIES
    if any(plain in auxiliaries or _is_verb(word) or _is_short(word) for plain, word in zip(bare, words, strict=True)):
        return False
    asking = [index for index in range(min(2, len(bare))) if bare[index] in QUESTION_WORDS]
    if not asking:
        return len(bare) <= _FEW and (is_joined or bare[0] in _PREPOSITIONS)
    content = [word for word in bare[asking[0] + 1 :] if word not in _OTHERS | _PREPOSITIONS]
    return len(content) <= int(bare[asking[0]] in ("how", "which", "what", "whose"))


def _is_alike(words: Sequence[str], before: Sequence[str]) -> bool:
    """Whether a question asks of something else what the one before asked: who built the ferry; who built the church.

    Not of the second prize, of what was asked about.
    """
    verbs = {_normalised(word) for word in words if _is_verb(word)}
    known = set(map(_normalised, before))
    rest = set(map(_normalised, words[_asking(words) :])) - verbs - known - _FUNCTION
    return bool(rest and verbs & known) and not any(map(_ORDINAL.fullmatch, rest))


def _resolved(words: Sequence[str], references: Sequence[int], previous: _PreviousTurn, *, is_fragment: bool) -> str:
    resolved = list(words)
    for index in references:
        word, after = _normalised(words[index]), _normalised(words[index + 1]) if index + 1 < len(words) else ""
        antecedent = "" if word in _DEMONSTRATIVES else previous.antecedent(_PRONOUNS.get(word, word))
        if not antecedent or antecedent in resolved:
            continue
        whose = antecedent
        if word in _POSSESSIVES and after not in {"", *_FUNCTION}:
            antecedent += "'" if antecedent.endswith("s") else "'s"
        resolved[index] = antecedent + ("," if words[index].endswith(",") else "")
        before = " ".join(previous.words)
        is_relative = index == 0 and len(words) == 2 and after in _RELATIVES
        if is_relative and re.search(rf"{re.escape(whose)}(?!['\u2019])", before):  # when was Ada born; and her brother
            return before.replace(whose, " ".join(resolved), 1)
    is_unsure = is_fragment or resolved == [*words]
    return _with_content(resolved, previous, previous.answer_name) if is_unsure else " ".join(resolved)


def _with_content(words: Sequence[str], previous: _PreviousTurn, answer: str = "") -> str:
    said = " ".join(words)
    content = _ORDINAL.sub("", previous.content) if _ORDINAL.search(said) else previous.content
    return ", ".join(filter(None, [said, " ".join(content.split()), answer]))


def _completed(words: Sequence[str], previous: _PreviousTurn) -> str:
    bare = list(map(_normalised, words))
    if any(word in QUESTION_WORDS for word in bare[:2]):
        opening = [word for word, plain in zip(words, bare, strict=True) if plain not in ("exactly", "precisely")]
        is_same = previous.asks in bare[:2]  # who else; what else
        answer = previous.answer if previous.asks.startswith(("what", "which", "who")) and not is_same else ""
        rest = [*previous.rest, answer] if previous.has_auxiliary else [answer, *previous.rest]
        return " ".join(filter(None, [*opening, *rest]))
    fragment, question = " ".join(words), " ".join(previous.words)
    if _TIME.search(fragment):
        previous_time = _TIME.search(question)
        if previous_time is None:
            return f"{question} {fragment}"
        time = words[-1] if previous_time.group()[0].isdigit() else fragment
        return question[: previous_time.start()] + time + question[previous_time.end() :]
    return _exchanged(fragment, question) or _substituted(words, previous)


def _exchanged(fragment: str, question: str) -> str | None:
    """The question with its date, ordinal or superlative, or its kind of something, replaced by that of a fragment."""
    if (shift := _NEXT_DAY.fullmatch(fragment)) and (day := DAY_OF_MONTH.search(question)):
        return question[: day.start()] + _moved(day[0], 1 if shift["after"] else -1) + question[day.end() :]
    for form in (DAY_OF_MONTH, _ORDINAL, _SUPERLATIVE):
        if found := form.search(fragment):
            rest = (
                {*map(_normalised, form.sub("", fragment).split())} - {*map(_normalised, question.split())} - _FUNCTION
            )
            if form is _SUPERLATIVE and rest - {"", "one", "ones"}:  # the smallest lake, of the largest river
                continue
            changed, count = form.subn(found.group(), question, count=1)
            if count or form is _ORDINAL:
                return changed if count else f"{question}, {fragment}"
    if kind := _OF_KIND.fullmatch(fragment):
        for last in [each for each in _KIND.finditer(question) if each["thing"].lower() not in _FUNCTION][-1:]:
            return question[: last.start("kind")] + kind["kind"] + question[last.end("kind") :]
    return None


def _moved(day: str, by: int) -> str:
    """The day so many days later, in the next month if need be."""
    year = day[:4] if day[:4].isdecimal() else ""
    ((month, number),) = days_in(day)
    moved = date(min(max(int(year or 2001), 2), 9998), month, 1) + timedelta(days=number - 1 + by)
    return str(moved) if year else f"{moved.day} {MONTH_NAMES[moved.month - 1]}"


def _substituted(words: Sequence[str], previous: _PreviousTurn) -> str:
    """The previous question with its names, or the owner of something, replaced by those of a fragment."""
    before, after = " ".join(previous.words), " ".join(words)
    owner = re.search(r"[\w-]+(?:['\u2019]s|s['\u2019]) +", before)
    if owner and (own := re.fullmatch(r"(?:(?:the|my|our) )?([\w-]+(?:['\u2019]s|s['\u2019]))", after, re.IGNORECASE)):
        return before.replace(owner[0].strip(), own[1], 1)
    for start, end in previous.phrases if words[0].lower() in ("with", "without") else []:
        first = start - (_normalised(previous.words[start - 1]) in _DETERMINERS) - 1
        if _normalised(previous.words[first]) in ("with", "without"):
            return " ".join([*previous.words[:first], *words, *previous.words[end:]])
    if words[0].lower() == "of" and owner:
        return " ".join([*before.replace(owner[0], "", 1).split(), *words])
    lead = int(_normalised(words[0]) in _PREPOSITIONS)
    new, old = _names(words, is_start=False), previous.names
    if not new or len(new) != len(old):
        bare = ["", "", *map(_normalised, previous.words)]
        # What stands before each: a preposition or such, and then perhaps a determiner.
        lead_in = {span: (*bare[span[0] : span[0] + 2],) for span in (*old, *previous.phrases) if span[0]}
        has_determiner = _normalised("".join(words[lead : lead + 1])) in _DETERMINERS
        fitting = [
            span
            for span, said in lead_in.items()
            if lead and _normalised(words[0]) in (said[1], *said[: said[1] in _DETERMINERS])
        ]
        alike = [span for span in previous.phrases if set(words) & set(previous.words[slice(*span)])]
        similar = [span for span, said in lead_in.items() if (said[1] in _DETERMINERS) == has_determiner]
        # Of the price of the soup, "the salad" is no price.
        is_figure = _normalised(words[-1]) in _FIGURES
        owners = [span for span in similar if has_determiner and lead_in[span][0] == "of" and not is_figure]
        if lead and not (fitting or alike):
            return " ".join([*previous.words, *words])  # the load for wool
        common = [span for span in similar if not lead and span not in old]
        old, new = (
            (fitting or alike or owners or common or old or similar or previous.phrases)[:1],
            [(lead, len(words))],
        )
    if not old:
        return " ".join([*previous.words, *words])
    swapped = list(previous.words)
    for (first, last), (start, end) in reversed(list(zip(old, new, strict=True))):
        # "the SSH port" takes the place of "the port".
        pair = [*swapped[max(first - 1, 0) : first], *words[start : start + 1]]
        is_repeated = len(pair) > 1 and _DETERMINERS.issuperset(map(_normalised, pair))
        whose = "'s" * (
            swapped[last - 1].endswith(("'s", "\u2019s")) and not words[end - 1].endswith(("'s", "\u2019s"))
        )
        swapped[first - is_repeated : last] = [*words[start : end - 1], words[end - 1] + whose]
    return " ".join(swapped)

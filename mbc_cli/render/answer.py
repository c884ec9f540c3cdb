"""An answer and its sources: as text, on the terminal, as JSON, and in the user's editor."""

import math
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import typer
from rich.style import Style
from rich.text import Text

from mbc_cli.formatting import display_path, format_duration, pluralise, sanitise
from mbc_cli.render.terminal import notes, out, print_indented
from mbc_engine.answer import Answer, AnswerItem, Confidence, Source
from mbc_engine.errors import DataError
from mbc_engine.sources import matches
from mbc_engine.text.characters import on_one_line
from mbc_engine.text.dates import is_of_another_time, period_in
from mbc_engine.text.formats import SUFFIXES
from mbc_engine.text.language import seems_english

# Shown in place of an answer.
NOT_IN_MEMORY: Final = "Not in this memory."
_WITHHELD: Final = "Withheld: only "
_PERHAPS, _OR = "Perhaps: ", ", or: "
_NOT_ENGLISH: Final = (
    "The question does not seem to be in English. mini reads English only; passages were found by their words."
)
_ANOTHER_TIME: Final = "The passage of this answer is about another time than the question."
FILE_STATES: Final = {
    "changed": "the file has changed since",
    "gone": "the file no longer exists",
    "unreadable": "the file cannot be read",
}
_COLOURS: Final = {"high": "green", "medium": "yellow", "low": "yellow"}
# Where an answer of a model of the paper's method comes from.
_ORIGINS: Final = {
    "memory": ("from memory", "green"),
    "model": ("from the model alone", "yellow"),
    "unsure": ("from memory or from the model alone", "yellow"),
}


def answer_text(answer: Answer) -> str:
    """The answer as plain text, or what is said in its place; "" if a base LM generated nothing."""
    if answer.text is None and answer.withheld and answer.confidence is not None:
        return f"{_WITHHELD}{percent(answer.confidence.probability)} confident."
    if answer.text is None:
        return NOT_IN_MEMORY
    if not answer.tentative:
        return answer.text
    others = (item.text for item in answer.items if item.text not in answer.text)
    return f"{_PERHAPS}{_OR.join((answer.text, *others))}"


def answer_in(text: str) -> str | None:
    """The answer that `answer_text` has shown; None if there was none."""
    if text.startswith((NOT_IN_MEMORY, _WITHHELD)):
        return None
    return text.removeprefix(_PERHAPS).partition(_OR)[0] if text.startswith(_PERHAPS) else text


def answer_lines(answer: Answer) -> list[str]:
    """The answer as plain text, each of several parts on a line of its own."""
    if not (parts := _part_lines(answer)):
        return [answer_text(answer)]
    return [_PERHAPS.rstrip()] * answer.tentative + parts


def _part_lines(answer: Answer) -> list[str]:
    """A line for each part; none unless the answer joins several. The parts of a worked-out figure are rows it is from."""
    parts = [item.text for item in answer.items]
    is_one = len(parts) < 2 or {*parts} == {answer.text}
    if answer.text is None or is_one or any(part not in answer.text for part in parts):
        return []
    return [part if part[0].isdigit() else f"• {part}" for part in parts]


def answer_style(answer: Answer) -> str:
    return "yellow" if answer.text is None else "bold yellow" if answer.tentative else "bold"


def item_sources(answer: Answer) -> list[Source]:
    """Where the parts of an answer were found: each document once, or once for each sentence that is not the answer."""
    sources: dict[tuple[object, str | None], Source] = {}
    for item in answer.items:
        sources.setdefault((_place(item.source), _other_sentence(answer, item)), item.source)
    return list(sources.values())


def more_note(answer: Answer) -> str | None:
    """A note that a list put together from several documents may lack some."""
    places = {_place(item.source) for item in answer.items}
    are_quoted = all(item.text == item.source.sentence for item in answer.items)
    return None if len(places) < 2 or are_quoted or not _part_lines(answer) else "There may be more in this memory."


def _place(source: Source) -> tuple[str, str, str]:
    return source.bank, source.path, source.part


def confidence_line(answer: Answer, *, with_bank: bool = False) -> Text | None:
    """How far to trust an answer and, for a retriever-reader, where it was found; None without an answer."""
    if answer.written_by is not None and (answer.extracted is None or answer.confidence is None):
        return Text(f"written by {display_path(answer.written_by)}", "yellow")
    if answer.text is None or answer.confidence is None:
        return None
    words = confidence_words(answer.confidence)
    if answer.is_extracted and answer.sources and not answer.items:
        words = Text.assemble(words, ", ", _provenance(answer.sources[0], with_bank=with_bank))
    if answer.written_by is None:
        return words
    return Text.assemble(f"“{sanitise(answer.extracted)}”: ", words, f"; written by {display_path(answer.written_by)}")


def confidence_words(confidence: Confidence) -> Text:
    likely = percent(confidence.probability)
    if confidence.label in _ORIGINS:
        return Text.assemble(_ORIGINS[confidence.label], f" ({likely} likely that the bank holds the answer)")
    return Text(f"{likely} confident ({confidence.label})", _COLOURS[confidence.label])


def _provenance(source: Source, *, with_bank: bool) -> Text:
    bank = f", in {display_path(source.bank)}" if with_bank else ""
    if source.text_from == "bank":
        state = f"; {FILE_STATES[source.state]}" if source.state in FILE_STATES else ""
        return Text.assemble("found in the bank's copy of ", _source_link(source), bank, state)
    return Text.assemble("found in ", _source_link(source), f" ({sanitise(source.date)})" if source.date else "", bank)


def language_note(question: str) -> str | None:
    """A warning if the question is in another language; None if it is in English."""
    return None if seems_english(question) else _NOT_ENGLISH


def missing_note(banks: Sequence[str]) -> str:
    """A warning that banks of a cluster are left out."""
    return f"Incomplete: {', '.join(map(sanitise, banks))} did not answer."


def answer_note(answer: Answer) -> str | None:
    """A warning if a question to a model that reads passages is in another language, or the answer of another time."""
    question = answer.asked or answer.question
    if answer.missing_banks:
        return missing_note(answer.missing_banks)
    return language_note(question) or _time_note(question, answer) if answer.is_extracted else None


def _time_note(question: str, answer: Answer) -> str | None:
    period, source = period_in(question), next(iter(answer.sources), None)
    if answer.text is None or period is None or source is None:
        return None
    text = f"{source.path} {source.part} {source.passage or source.sentence or ''}"
    return _ANOTHER_TIME if is_of_another_time(period, text, source.date) else None


def asked_line(asked: str) -> Text:
    return Text(f"Asked: {sanitise(asked)}", "dim italic")


def source_line(label: str, source: Source, *, with_bank: bool = False, with_share: bool = True) -> Text:
    bank = f"  in {display_path(source.bank)}" if with_bank else ""
    date = f"  {sanitise(source.date)}" if source.date else ""
    share = ties = ""
    if with_share:
        share = f"  {source.share:.0%}" if source.share >= 0.005 else "  <1%"
        ties = f"  tied with {pluralise(source.ties, 'other')}" if source.ties else ""
    return Text.assemble(label, _source_link(source), (bank, "dim"), share, (date, "dim"), ties)


def file_state_note(source: Source) -> str | None:
    if source.state not in FILE_STATES:
        return None
    copy = "; this is the bank's copy" if source.text_from == "bank" else ""
    return f"{FILE_STATES[source.state]}{copy}"


def _source_link(source: Source) -> Text:
    """A source's file and line, or its part, as a link to the file; a link's address has no control characters."""
    path = Path(source.path)
    is_there = source.state in ("unchanged", "changed") and path.is_absolute()
    name = source_location(replace(source, line=None) if source.part else source)
    link = Text(name, Style(color="cyan", link=path.as_uri() if is_there else None))
    return link.append(f" and {pluralise(len(source.others), 'other place')}", "dim") if source.others else link


def source_location(source: Source) -> str:
    """A source by its page if known, or its line, as grep names it, or else as `mbc bank` accepts it."""
    if source.page is not None:
        return f"{display_path(source.path)}, page {source.page}"
    if source.line is not None:
        return f"{display_path(source.path)}:{source.line}"
    return display_path(source.name)


def timing_summary(answer: Answer, loading: float | None = None) -> str:
    """How long an answer took, and `loading` the model if given."""
    steps = dict(answer.seconds) if loading is None else {"model": loading, **answer.seconds}
    return " · ".join(f"{step} {format_duration(spent)}" for step, spent in steps.items())


def percent(probability: float) -> str:
    """Rounded down, so as not to show a value below a threshold as reaching it; the epsilon absorbs float error."""
    return f"{math.floor(100 * probability + 1e-9)}%"


_INDENT: Final = 3
_OTHERS: Final = "Other sources:"
# Maximum characters of a search result's sentence, and of those before its first highlighted word.
_MAX_SNIPPET, _SNIPPET_LEAD = 400, 100


def show_answer(answer: Answer, *, with_bank: bool = False, is_streamed: bool = False) -> None:
    heading, sources = _listed(answer)
    if answer.items:
        heading, sources = _OTHERS, _show_items(answer, with_bank=with_bank)
    elif not is_streamed:  # a base LM may generate nothing; a pipe gets an empty line
        nothing = Text("(no answer)", "dim") if out.is_terminal else Text()
        text = answer_text(answer)
        out.print(Text(sanitise(text), answer_style(answer)) if text else nothing)
    if (trust := confidence_line(answer, with_bank=with_bank)) is not None:
        out.print(trust)
    for sentence in answer.unsupported:
        out.print(Text(f"Not in the sources it cites: “{sanitise(sentence)}”", "yellow"))
    if heading == _OTHERS and not answer.items and answer.sources and answer.sources[0].sentence:
        print_indented(answer.sources[0].sentence, by=_INDENT)
    if sources:
        out.print(f"\n{heading}")
    for number, source in sources.items():
        lines = [source.sentence] if source.sentence else []
        # Beside "Not in this memory.", a share would be taken for the likelihood of an answer.
        show_source(number, source, lines, with_bank=with_bank, with_share=answer.text is not None)
    if note := answer_note(answer):
        notes.print(note, style="yellow")


def _show_items(answer: Answer, *, with_bank: bool) -> dict[int, Source]:
    """Print the parts of an answer, each document's with its source below; returns the answer's other sources."""
    lines, parts, style = answer_lines(answer), _part_lines(answer), answer_style(answer)
    found = [(_place(item.source), _other_sentence(answer, item)) for item in answer.items]
    if not parts or len(lines) > len(parts):
        out.print(Text(sanitise(lines[0]), style))
    for number, item in enumerate(answer.items):
        if parts:
            out.print(Text(sanitise(parts[number]), style))
        if found[number : number + 1] != found[number + 1 : number + 2]:
            if sentence := found[number][1]:
                print_indented(sentence, by=_INDENT)
            print_indented(_provenance(item.source, with_bank=with_bank), by=_INDENT)
    if note := more_note(answer):
        out.print(Text(note, "dim"))
    places = {place for place, _ in found}
    others = (source for source in answer.sources if _place(source) not in places)
    return dict(enumerate(others, 1))


def _other_sentence(answer: Answer, item: AnswerItem) -> str | None:
    """The sentence of a part, unless the answer has it."""
    sentence = item.source.sentence
    return None if sentence is None or sentence in (answer.text or "") else sentence


def _listed(answer: Answer) -> tuple[str, dict[int, Source]]:
    """What to list below an answer, by number: the sources a written one cites, or those beside the first."""
    sources = dict(enumerate(answer.sources, 1))
    if answer.text is None:
        return "Closest passages:", sources
    if answer.written_by is not None:
        from mbc_engine.mini.citations import cited

        if numbers := sorted(sources.keys() & cited(answer.text)):
            return "Sources:", {number: sources[number] for number in numbers}
    if answer.is_extracted:
        return _OTHERS, dict(enumerate(answer.sources[1:], 1))
    return "Sources:", sources


def show_source(
    number: int, source: Source, lines: Sequence[str | Text], *, with_bank: bool = False, with_share: bool = True
) -> None:
    """Print a source and its text, and the state of its file unless unchanged."""
    label = f"{number}. "
    out.print(source_line(label, source, with_bank=with_bank, with_share=with_share))
    for line in lines:
        print_indented(line, by=len(label))
    if state := file_state_note(source):
        print_indented(state, by=len(label), style="yellow")


def highlight_matches(query: str, text: str) -> Text:
    """Untrusted text with the words of a query highlighted, cut around the first of them if long."""
    spans, length = matches(query, text), len(text)
    first = max(0, min(spans[0][0] - _SNIPPET_LEAD, length - _MAX_SNIPPET)) if spans and length > _MAX_SNIPPET else 0
    last = min(length, first + _MAX_SNIPPET)
    shown, end = Text("… " if first else ""), first
    for start, stop in spans:
        if start >= first and stop <= last:
            shown.append(sanitise(text[end:start])).append(sanitise(text[start:stop]), "bold red")
            end = stop
    return shown.append(sanitise(text[end:last])).append(" …" if last < length else "")


def answer_json(answer: Answer, banks: Sequence[Path], loading: float) -> dict[str, Any]:
    """Everything about an answer; times in seconds, sizes in bytes, the gain in nats per token.

    `answer` is null if it is not in this memory, or `withheld` because it is less likely than asked for; `confidence` is
    then that of the withheld answer. It is `tentative` if the model is not sure of it; `items` are its parts, if it has
    several. `extracted` and `written_by` are null unless a chat LM wrote the answer, which may cite `sources` by number;
    `unsupported` are its sentences that are not in what they cite, and `confidence` is in what was extracted. `asked` is
    null unless the question was completed in a conversation, `note` unless there is a warning.
    """
    confidence = answer.confidence
    return {
        "question": answer.question,
        "asked": answer.asked,
        "note": answer_note(answer),
        "answer": answer.text,
        "tentative": answer.tentative,
        "withheld": answer.withheld,
        "items": [{"text": item.text, "source": source_json(item.source)} for item in answer.items],
        "extracted": answer.extracted,
        "written_by": answer.written_by,
        "unsupported": list(answer.unsupported),
        "confidence": confidence and round(confidence.probability, 4),
        "label": confidence and confidence.label,
        "gain": answer.gain and round(answer.gain, 4),
        "sources": [source_json(source) for source in answer.sources],
        "timings": {"model": round(loading, 4), **{step: round(spent, 4) for step, spent in answer.seconds.items()}},
        "bank": {
            "paths": [str(path) for path in banks],
            "documents": answer.totals.documents,
            "chunks": answer.totals.chunks,
            "sizes": asdict(answer.sizes),
            "missing": list(answer.missing_banks),
        },
    }


def source_json(source: Source) -> dict[str, Any]:
    return {name: value for name, value in asdict(source).items() if name != "passage"}


def passage_json(query: str, source: Source) -> dict[str, Any]:
    return {**asdict(source), "words": shared_words(query, source)}


def shared_words(query: str, source: Source) -> list[str]:
    """The words of a passage that also occur in a query, in any inflection, as spelled in the passage."""
    passage = on_one_line(source.passage or "")
    return list(dict.fromkeys(passage[start:end] for start, end in matches(query, passage)))


# Editors that do not take a line as `+LINE FILE`.
_WITH_COLON: Final = ("hx", "helix", "subl", "zed")
_WITH_GOTO: Final = ("code", "code-insiders", "codium", "cursor")


def open_file(path: Path, line: int | None = None) -> None:
    """Show a file at a line until the viewer exits. Raises DataError if the file is gone or no program can show it."""
    if not path.is_absolute() or not os.path.isfile(path):
        raise DataError(f"{path} cannot be opened: it is not a file any more.", hint="`mbc search` shows its text.")
    format = SUFFIXES.get(path.suffix.lower())
    if format is not None and not format.may_be_compressed:  # no editor of text shows it
        typer.launch(str(path))
        return
    chosen = (os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR", "PAGER"))
    installed = (name for name in ("less", "more", "vi") if shutil.which(name))
    try:
        program = shlex.split(next(filter(None, chosen), None) or next(installed, "vi"))
        name, where = Path(program[0]).stem, [str(path)]
        if line is not None and name in _WITH_GOTO:
            where = ["--goto", f"{path}:{line}"]
        elif line is not None:
            where = [f"{path}:{line}"] if name in _WITH_COLON else [f"+{line}", str(path)]
        subprocess.run([*program, *where], check=False)  # noqa: S603  # the user's own choice
    except (OSError, ValueError) as error:  # ValueError: the command has an open quotation
        raise DataError(f"{path} cannot be opened: {error}.", hint="Set EDITOR to an editor.") from error

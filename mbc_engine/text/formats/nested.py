"""JSON as text: arrays of objects as rows, chats as who said what, notebooks, and any other values with their paths."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from mbc_engine.text.decoding import LINE_CHARACTERS, ByteStream, decode_file, lines, storable, stream_of
from mbc_engine.text.document import Content, Skipped, TextBuilder, UnreadableFile, counted, day_of
from mbc_engine.text.formats.rows import LONGEST_NAME, Cell, Row, written

DEEPEST: Final = 50


class Values(NamedTuple):
    """A value as cells, each with its path, and what else belongs to it: a line per object in its lists, and chats."""

    cells: list[Cell]
    below: list[str]
    losses: Counter[str]


def values_of(value: object, name: str = "", depth: int = 0, *, is_verbatim: bool = False) -> Values:
    """Any value; its strings as people see them, unless `is_verbatim`. Raises UnreadableFile if it is nested too deeply."""
    values = Values([], [], Counter())
    if depth > DEEPEST:
        raise UnreadableFile("is nested too deeply")
    if isinstance(value, Mapping):
        for key, part in value.items():
            inner = values_of(part, _joined(name, key), depth + 1, is_verbatim=is_verbatim)
            values.cells.extend(inner.cells)
            values.below.extend(inner.below)
            values.losses.update(inner.losses)
    elif not isinstance(value, list):
        text = as_text(value)
        data = [] if is_verbatim else [what for what, form in _DATA.items() if form.fullmatch(text)]
        values.losses.update(data[:1])
        values.cells.extend([] if data else [Cell(name, text if is_verbatim else _as_seen(text, name))])
    elif chat := chat_text(value, name):
        values.below.append(chat)
    elif len(value) > _MOST_NUMBERS and _are_numbers(value):
        values.losses["number list"] += 1
    elif len(value) == 1:
        return values_of(value[0], name, depth + 1, is_verbatim=is_verbatim)
    elif any(isinstance(part, Mapping | list) for part in value):
        for part in value:
            inner = values_of(part, name, depth + 1, is_verbatim=is_verbatim)
            values.below.extend(filter(None, (written(inner.cells), *inner.below)))
            values.losses.update(inner.losses)
    else:
        texts = [text for part in value if (text := as_text(part))]
        are_sentences = any(text.endswith((".", "!", "?")) and " " in text for text in texts)
        values.cells.append(Cell(name, ("\n" if are_sentences else ", ").join(texts)))
    return values


# Longer lists of them, or of points, are data for programs.
_MOST_NUMBERS: Final = 100


def _are_numbers(value: object, depth: int = 0) -> bool:
    """Whether a value is a number, or lists of them, as the points of shapes on a map."""
    if isinstance(value, list):
        return depth < 5 and all(_are_numbers(part, depth + 1) for part in value)
    return isinstance(value, int | float)


# Texts that nobody reads: base64, on a line or on lines of equal length, and coordinates of lines.
_DATA: Final = {
    "embedded file": re.compile(
        r"(?:data:[\w/+.-]+;base64,)?(?=.{200})(?:[\w+/-]{60,}\s+)*[\w+/-]+={0,2}", re.ASCII | re.DOTALL
    ),
    "number list": re.compile(r"[-+\d\s.,]{500,}"),
}
# HTML from its first to its last tag; and a tag that may stand in a sentence.
_OUTER: Final = "html|body|div|p|ul|ol|table|h[1-6]|blockquote|article|section|span|b|i|a|en-note"
_PAGE: Final = re.compile(rf"\s*(?:<[?!][^>]*>\s*)*<(?:{_OUTER})\b.*</(?:{_OUTER})>\s*", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(
    r"</?(?:a|b|i|u|em|strong|br|p|span)(?:\s+[\w:-]+=(?:\"[^\"]*\"|'[^']*'))*\s*/?>", re.IGNORECASE
)


def _as_seen(text: str, name: str) -> str:
    """A time in figures, and what a browser shows of HTML, as in notes and feeds; anything else as it is."""
    if _OF_TIME.search(name):
        return _legible(text)
    if _PAGE.fullmatch(text) or 0 < text.count("<") == len(_TAG.findall(text)):
        from mbc_engine.text.formats.html import page_of

        with suppress(UnreadableFile):
            return page_of(text).content(b"").text
    return text


def _joined(path: str, key: object) -> str:
    name = storable(str(key)).strip()
    return ".".join(filter(None, (path, name)))[-LONGEST_NAME:]


def as_text(value: object) -> str:
    """A string, number or truth value as it is written; "" for nothing."""
    if value is None:
        return ""
    return storable(value).strip() if isinstance(value, str) else json.dumps(value)


def read_jsonl(stream: ByteStream) -> Iterator[Row | Skipped]:
    """The objects, or other values, of each line as a row; blank lines are skipped."""
    for number, line in enumerate(lines(stream, "\n"), 1):
        if line is None:
            yield Skipped(str(number), f"is longer than {LINE_CHARACTERS >> 20} MB")
        elif line.strip():
            try:
                yield _row(number, json.loads(line), is_verbatim=True)
            except (ValueError, RecursionError):
                yield Skipped(str(number), "is not JSON")
            except UnreadableFile as error:
                yield Skipped(str(number), str(error))


def _row(number: int, value: object, table: str = "", context: str = "", *, is_verbatim: bool = False) -> Row:
    values, id = values_of(value, is_verbatim=is_verbatim), value.get("id") if isinstance(value, Mapping) else None
    name = storable(id) if isinstance(id, str) else ""
    day = _day(value) if isinstance(value, Mapping) else None
    losses = counted(values.losses)
    return Row(number, values.cells, "\n".join(values.below), table, context, date=day, losses=losses, id=name)


_DATED: Final = ("updated", "modified", "usereditedtimestampusec", "published", "pubdate", "created", "createtime")


def _day(value: Mapping[str, Any]) -> str | None:
    """The day on which an object was written, last if it says so."""
    named = {re.sub(r"[^a-z]|at$", "", str(key).lower()): part for key, part in reversed([*value.items()])}
    return next((day for key in ("date", *_DATED) if (day := day_of(_moment(named.get(key))))), None)


# What UTF-8 looks like if each byte is taken for a character.
_BYTES_OF_UTF8: Final = re.compile("[\x80-\x9f]|[\xc2\xc3][\xa0-\xbf]")


def _decoded(value: Any) -> Any:
    """A file's value as it was meant: Facebook and Instagram export each byte of UTF-8 as a character."""
    is_garbled = False

    def decoded(part: Any, depth: int) -> Any:
        nonlocal is_garbled
        if isinstance(part, str):
            is_garbled = is_garbled or bool(_BYTES_OF_UTF8.search(part))
            return part.encode("latin-1").decode()
        if depth > DEEPEST:
            return part
        if isinstance(part, dict):
            return {decoded(key, depth): decoded(each, depth + 1) for key, each in part.items()}
        return [decoded(each, depth + 1) for each in part] if isinstance(part, list) else part

    with suppress(UnicodeError):  # one string is not garbled, so none is
        meant = decoded(value, 0)
        return meant if is_garbled else value
    return value


def read_json(stream: ByteStream) -> Iterator[Content | Row | Skipped]:
    """A chat as one text; of other files, each object in an array is a row, and the rest is one text.

    What is not JSON, as settings with comments or a file that was cut off, is read as it is written.
    """
    data = stream.read_all()
    text = decode_file(data)
    try:
        value = _decoded(json.loads(text)) if text.strip() else ""
    except RecursionError as error:
        raise UnreadableFile("is nested too deeply") from error
    except ValueError:
        if _JSON_LINES.match(text):
            yield from read_jsonl(stream_of(data))
        else:
            yield Content(text, data)
        return
    if isinstance(value, list) and (chat := chat_text(value)):
        yield Content(chat, chat.encode(), _last_day(value))
    elif isinstance(value, list):
        for number, item in enumerate(value, 1):
            if item not in _NOTHING:
                yield _row(number, _as_conversation(item))
    elif isinstance(value, Mapping):
        yield from read_object(value)
    else:
        text = as_text(value)
        yield Content(text, text.encode())


_NOTHING: Final[tuple[object, ...]] = (None, "", [], {})


# Two lines that are objects.
_JSON_LINES: Final = re.compile(r"(?:\s*\{[^\n]*\}[ \t\r]*(?:\n|\Z)){2}")


def read_object(value: Mapping[str, Any]) -> Iterator[Content | Row]:
    """An object: its lists of objects are tables, or a chat; what is left is a text with a section for each part."""
    tables: dict[str, list[object]] = {}
    rest = _without_tables(value, tables, "", 0)
    title = next((as_text(rest[key]) for key in ("title", "name") if isinstance(rest.get(key), str)), "")
    text, losses = TextBuilder(), Counter[str]()
    plain = {key: part for key, part in rest.items() if not isinstance(part, Mapping | list)}
    for name, part in (("", plain), *((key, part) for key, part in rest.items() if key not in plain)):
        values = values_of(part, _joined("", name))
        text.heading(1, name[:LONGEST_NAME], is_shown=False)
        text.add(written(values.cells))
        losses += values.losses
        for line in values.below:
            text.add(line, "\n")
    said = (_last_day(part) for key, part in rest.items() if isinstance(part, list) and chat_text(part, key))
    day = next((day for day in said if day), None) or _day(rest)
    yield text.content(text.text().encode(), day, "fields" if tables else "", title=title, losses=losses)
    for name, rows in tables.items():
        for number, row in enumerate(rows, 1):
            yield _row(number, row, name, " > ".join(filter(None, (title, name))))


def _without_tables(value: Mapping[str, Any], tables: dict[str, list[object]], path: str, depth: int) -> dict[str, Any]:
    rest: dict[str, Any] = {}
    for key, part in value.items():
        name = _joined(path, key)
        if isinstance(part, Mapping) and depth < DEEPEST:
            rest[key] = _without_tables(part, tables, name, depth + 1)
        elif _are_objects(part) and len(part) > 1 and not chat_text(part, name):
            tables[name] = part
        else:
            rest[key] = part
    return rest


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_object, value))


# The keys that exports of chats have.
_WHO: Final = (
    "role",
    "from",
    "sender",
    "sender_name",
    "user",
    "author",
    "username",
    "creator",
    "name",
    "speaker",
    "nick",
)
_WHAT: Final = ("content", "text", "message", "value", "body", "parts")
_WHEN: Final = (
    *(
        "timestamp",
        "date",
        "time",
        "ts",
        "datetime",
        "created_at",
        "create_time",
        "timestamp_ms",
        "sent_at",
        "created_date",
    ),
    "originalarrivaltime",
)
_CHAT: Final = re.compile(
    r"messages?|conversations?|chats?|chat_messages|dialogs?|dialogues?|turns|history|thread", re.IGNORECASE
)


def chat_text(value: list[Any], name: str = "") -> str:
    """The messages of a chat, a paragraph each, "Olga, 2024-03-01 10:22: See you."; "" if it is none."""
    if not value or not _are_objects(value):
        return ""
    # Elsewhere, an author and a text are as likely a review or a mail.
    is_named = bool(_CHAT.fullmatch(name.rpartition(".")[2]))
    who = _WHO if is_named else _WHO[:5]
    said = [message for message in value if _of(message, _WHAT, _words)]
    if 2 * len(said) < len(value) or (not is_named and any({"title", "subject"} & {*message} for message in said)):
        return ""
    if not all(_of(message, who, _person) for message in said):
        return ""
    profiles = ((message.get("user"), message.get("user_profile")) for message in said)
    names = {id: name for id, profile in profiles if isinstance(id, str) and (name := _person(profile))}
    return "\n\n".join(_message(message, who, names) for message in said)


def _message(message: Mapping[str, Any], who: tuple[str, ...], names: Mapping[str, str]) -> str:
    when, person = _of(message, _WHEN, _moment), _of(message, who, _person)
    words = _MENTION.sub(lambda mention: names.get(mention[1], mention[0]), _of(message, _WHAT, _words))
    return f"{', '.join(filter(None, (names.get(person, person), when)))}: {words}"


_MENTION: Final = re.compile(r"<@(\w{1,40})>")


def _as_conversation(value: Any) -> Any:
    """A conversation whose messages are a tree, as ChatGPT exports it, with those that lead to the last; else as is."""
    nodes = value.get("mapping") if isinstance(value, Mapping) else None
    if not isinstance(nodes, Mapping):
        return value
    messages: list[Mapping[str, Any]] = []
    key, seen = value.get("current_node") or next(reversed(nodes), None), set[str]()
    while isinstance(key, str) and key not in seen and isinstance(node := nodes.get(key), Mapping):
        seen.add(key)
        message, key = node.get("message"), node.get("parent")
        if isinstance(message, Mapping) and _of(message, _WHAT, _words):
            messages.append(message)
    if not chat_text(messages, "messages"):
        return value
    day = _moment(value.get("create_time")).partition(" ")[0]
    return {"title": value.get("title"), "date": day, "messages": messages[::-1]}


def _last_day(messages: list[Mapping[str, Any]]) -> str | None:
    return next((day for message in reversed(messages) if (day := day_of(_of(message, _WHEN, _moment)))), None)


def _of(message: Mapping[str, Any], keys: tuple[str, ...], read: Callable[[Any], str]) -> str:
    return next((text for key in keys if (text := read(message.get(key)))), "")


def _person(value: object) -> str:
    if isinstance(value, Mapping):
        return _of(value, ("nickname", "real_name", "display_name", "name", "username", "role"), _person)
    return as_text(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


_WORDS: Final = ("text", "content", "value", "parts")


def _words(value: object) -> str:
    if isinstance(value, str):
        return storable(value).strip()
    if isinstance(value, Mapping):
        inner = (part for key in _WORDS if not _is_object(part := value.get(key)))
        return next(filter(None, map(_words, inner)), "")
    if isinstance(value, list):  # parts, as links and mentions within a text
        parts = (part if isinstance(part, str) else _words(part) for part in value if isinstance(part, str | Mapping))
        return storable("".join(parts)).strip()
    return ""


# The names of values that are times, which may be numbers.
_OF_TIME: Final = re.compile(
    r"(?i:(?:^|[._ -])(?:(?:date)?time|date|timestamp|created|modified|edited|published|updated)(?:_?(?:at|on|utc|m?s|usec))?$)"
    r"|[a-z](?:Timestamp|Time|Date|Created|Modified|Edited|Published|Updated)(?:Ms|Usec|Utc)?$|At$|_at$|^ts$"
)
# Seconds since 1970, with thousandths or millionths; and ISO 8601 without marks.
_COUNTED: Final = re.compile(r"(1\d{9})(?:\d{3}|\d{6}|\.\d+)?|(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)\d\dZ?")
_ISO: Final = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)")


def _legible(text: str) -> str:
    """A time to the minute if it is written for programs; anything else as it is."""
    if not (match := _COUNTED.fullmatch(text)):
        return text
    seconds, *parts = match.groups()
    if seconds:
        return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%d %H:%M")
    return "{}-{}-{} {}:{}".format(*parts)


def _moment(value: object) -> str:
    """A time to the minute; what is neither one for programs nor ISO 8601 stays as it is."""
    text = _legible(as_text(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    return f"{match[1]} {match[2]}" if (match := _ISO.match(text)) else text


def read_notebook(stream: ByteStream) -> Iterator[Content | Row | Skipped]:
    """The cells of a Jupyter notebook in order, with the texts that they gave out; pictures are lost.

    Anything else is read as JSON.
    """
    data = stream.read_all()
    notebook: Any = None
    with suppress(RecursionError, ValueError):
        notebook = json.loads(decode_file(data))
    cells = notebook.get("cells") if isinstance(notebook, Mapping) else None
    if not isinstance(cells, list):
        yield from read_json(stream_of(data))
        return
    text, pictures = TextBuilder(), 0
    for cell in filter(_is_object, cells):
        source = _source(cell.get("source"))
        if cell.get("cell_type") == "markdown":
            from mbc_engine.text.formats.markdown import without_embedded_files

            source, embedded = without_embedded_files(source)
            pictures += embedded
            _markdown(source, text)
        else:
            text.add(source)
        outputs = cell.get("outputs")
        for output in filter(_is_object, outputs if isinstance(outputs, list) else ()):
            given = output.get("data")
            given = given if isinstance(given, Mapping) else {}
            pictures += any(str(kind).startswith("image/") for kind in given)
            text.add(_COLOURS.sub("", _source(output.get("text")) or _source(given.get("text/plain"))))
    content = text.content(text.text().encode(), losses={"picture": pictures})
    yield replace(content, title=next((section.context for section in content.sections), "").partition(" > ")[0])


_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")
_HEADING: Final = re.compile(r"(#{1,6})\s+(.+)")


def _source(value: object) -> str:
    if isinstance(value, list):
        value = "".join(line for line in value if isinstance(line, str))
    return storable(value) if isinstance(value, str) else ""


def _markdown(source: str, text: TextBuilder) -> None:
    gap = "\n\n"
    for line in source.splitlines():
        if heading := _HEADING.fullmatch(line.strip()):
            text.heading(len(heading[1]), heading[2], is_shown=False)
        if line.strip():
            text.add(line, gap)
        gap = "\n" if line.strip() else "\n\n"

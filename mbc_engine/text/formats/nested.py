"""JSON as text: arrays of objects as rows, chats as who said what, notebooks, and any other values with their paths."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Final, NamedTuple

from mbc_engine.text.decoding import LINE_CHARACTERS, ByteStream, decode_file, lines, storable, stream_of
from mbc_engine.text.document import Content, Skipped, TextBuilder, UnreadableFile, counted, day_of
from mbc_engine.text.formats.rows import LONGEST_NAME, Cell, Row, as_seen, written

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
            plain = re.sub("_?html$", "", str(key), flags=re.IGNORECASE)
            again = None if plain != key and value.get(plain) else part  # as a text and as HTML
            inner = values_of(again, _joined(name, key), depth + 1, is_verbatim=is_verbatim)
            values.cells.extend(inner.cells)
            values.below.extend(inner.below)
            values.losses.update(inner.losses)
    elif not isinstance(value, list):
        text = as_text(value)
        data = [] if is_verbatim else [what for what, form in _DATA.items() if form.fullmatch(text)]
        values.losses.update(data[:1])
        values.cells.extend([] if data else [Cell(name, text if is_verbatim else _as_seen(text, name))])
    elif text := _list_text(value, name):
        values.below.append(text)
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


def _list_text(value: list[Any], name: str) -> str:
    """The text of a list of objects that are no rows: the messages of a chat, tasks, or an outline; else ""."""
    if not _are_objects(value):
        return ""
    if name.rpartition(".")[2] == "children" and all(map(_label, value)):
        return "\n".join(_outline(value, 0))
    tasks = [*takewhile(bool, map(_task, value))]
    return "\n".join(tasks) if len(tasks) == len(value) else chat_text(value, name)


# What an item of an outline says, as of notes and of bookmarks, where it leads, and what programs need of it.
_LABEL: Final = ("string", "content", "title", "name", "text")
_ADDRESS: Final = ("url", "uri")
_FOR_PROGRAMS: Final = re.compile(
    r":.*|(?:gu|u|uu)?id|refs|type(?:code)?|index|props|heading|collapsed|iconuri|meta_info|(?:create|edit)-time|date_?\w*"
    r"|last_?modified",
    re.IGNORECASE,
)


def _label(item: Mapping[str, Any]) -> str:
    return _of(item, _LABEL, _words)


def _outline(items: list[Any], depth: int) -> Iterator[str]:
    """A line for each item, indented below the one that it belongs to."""
    if depth > DEEPEST:
        raise UnreadableFile("is nested too deeply")
    for item in items:
        label, children = _label(item), item.get("children")
        others = {key: part for key, part in item.items() if key != "children" and not _FOR_PROGRAMS.fullmatch(key)}
        cells = [cell for cell in values_of(others, depth=depth).cells if cell.text != label]
        address = next((cell.text for cell in cells if cell.name in _ADDRESS), "")
        more = written(cell for cell in cells if cell.name not in _ADDRESS).replace("\n", " ")
        line = ": ".join(filter(None, (" ".join(label.split()), address)))
        yield "  " * depth + f"- {line} ({more})" if more else "  " * depth + f"- {line}"
        if _are_objects(children):
            yield from _outline(children, depth + 1)


_DONE: Final = re.compile(r"(?:is)?_?(?:checked|completed?|done)", re.IGNORECASE)


def _task(item: Mapping[str, Any]) -> str:
    """An item of a list of tasks as Markdown writes it; "" if it is none, or more is said of it."""
    text, state = _of(item, ("text", "name", "title"), _words), item.get("state")
    done = next((part for key, part in item.items() if _DONE.fullmatch(key) and isinstance(part, bool)), None)
    is_done = state == "complete" if state in ("complete", "incomplete") else done
    said = {part for key, part in item.items() if isinstance(part, str) and not re.search("(?i)id$|html$", key)}
    return f"- [{'x' if is_done else ' '}] {text}" if text and is_done is not None and said <= {text, state, ""} else ""


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


def _as_seen(text: str, name: str) -> str:
    """A time in figures, words that Evernote has found in a picture, and of HTML what a browser shows."""
    if _OF_TIME.search(name):
        return _legible(text)
    return " ".join(re.sub("<[^>]*>", " ", text).split()) if "<recoIndex" in text[:500] else as_seen(text)


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
    day = _written_on(value) if isinstance(value, Mapping) else None
    losses = counted(values.losses)
    return Row(number, values.cells, "\n".join(values.below), table, context, date=day, losses=losses, id=name)


def _written_on(value: Mapping[str, Any]) -> str | None:
    """The day of the last message of an object, or on which it was written."""
    said = (_last_day(_messages(part, key)) for key, part in value.items() if isinstance(part, list))
    return next(filter(None, said), None) or _day(value)


# What is said to be a time of a thing, the last change first; "" is of a time without a name.
_DATED: Final = (
    *("updated", "modified", "edited", "edit", "useredited", "published", "pub"),
    *("created", "creation", "create", "added", "", "start", "end", "ts"),
)
_OF_DATE: Final = re.compile(r"^(?:last|date)(?=.)|(?:(?<=ed)(?:at|on)|(?:date|time|timestamp)(?:m?s|usec|utc)?)$")


def _day(value: Mapping[str, Any]) -> str | None:
    """The day on which an object was written, last if it says so."""
    about = value.get("metadata") or (next(iter(value.values())) if len(value) == 1 else None)
    letters = {re.sub("[^a-z]", "", str(key).lower()): part for key, part in reversed([*value.items()])}
    named = {key if key == "date" else _OF_DATE.sub("", key): part for key, part in letters.items()}
    day = next((day for key in ("date", *_DATED) if key in named and (day := day_of(_moment(named[key])))), None)
    return _day(about) if day is None and isinstance(about, Mapping) else day


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


_IDS: Final = ("id", "gid", "guid", "uuid", "uid")
_SHORTEST_ID: Final = 8


def _with_names(value: Any) -> Any:
    """A file's value with the names of things instead of the ids by which others refer to them, as cards to their list."""
    names: dict[str, str] = {}

    def collect(part: Any, depth: int) -> None:
        if isinstance(part, dict):
            id, name = (
                next((text for key in keys if isinstance(text := part.get(key), str)), "")
                for keys in (_IDS, _NAMES_OF_THINGS)
            )
            if name and len(id) >= _SHORTEST_ID and re.search(r"\d", id):
                names.setdefault(id, name)
        if isinstance(part, dict | list) and depth < DEEPEST:
            for inner in part.values() if isinstance(part, dict) else part:
                collect(inner, depth + 1)

    def named(part: Any, depth: int) -> Any:
        if isinstance(part, dict) and depth < DEEPEST:
            return {key: inner if key in _IDS else named(inner, depth + 1) for key, inner in part.items()}
        if isinstance(part, list) and depth < DEEPEST:
            return [named(inner, depth + 1) for inner in part]
        return names.get(part, part) if isinstance(part, str) else part

    collect(value, 0)
    return named(value, 0) if names else value


_NAMES_OF_THINGS: Final = ("fullName", "real_name", "name", "title")


def read_json(stream: ByteStream) -> Iterator[Content | Row | Skipped]:
    """A chat as one text; of other files, each object in an array is a row, and the rest is one text.

    What is not JSON, as settings with comments or a file that was cut off, is read as it is written.
    """
    data = stream.read_all()
    text = decode_file(data)
    try:
        value = _with_names(_decoded(json.loads(_ASSIGNED.sub("", text)))) if text.strip() else ""
    except RecursionError as error:
        raise UnreadableFile("is nested too deeply") from error
    except ValueError:
        if _JSON_LINES.match(text):
            yield from read_jsonl(stream_of(data))
        else:
            yield Content(text, data)
        return
    if isinstance(value, list) and (chat := chat_text(value)):
        yield Content(chat, chat.encode(), _last_day(_messages(value)))
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
# An archive of Twitter's is a script.
_ASSIGNED: Final = re.compile(r"\A\s*window\.YTD\.[\w.]{1,80} = ")


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
    yield text.content(text.text().encode(), _written_on(rest), "fields" if tables else "", title=title, losses=losses)
    for name, rows in tables.items():
        for number, row in enumerate(rows, 1):
            yield _row(number, row, name, " > ".join(filter(None, (title, name))))


def _without_tables(value: Mapping[str, Any], tables: dict[str, list[object]], path: str, depth: int) -> dict[str, Any]:
    rest: dict[str, Any] = {}
    for key, part in value.items():
        name = _joined(path, key)
        if isinstance(part, Mapping) and depth < DEEPEST:
            rest[key] = _without_tables(part, tables, name, depth + 1)
        elif _are_objects(part) and len(part) > 1 and not _list_text(part, name):
            tables[name] = part
        else:
            rest[key] = part
    return rest


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_object, value))


# The keys that exports of chats have.
_SENDER: Final = ("role", "from", "sender", "sender_name", "user")
_WHO: Final = (*_SENDER, "author", "username", "creator", "name", "speaker", "nick")
_WHAT: Final = ("content", "text", "message", "value", "body", "parts")
_WHEN: Final = (
    *("timestamp", "date", "time", "ts", "datetime", "created_at", "create_time", "timestamp_ms", "sent_at"),
    *("created_date", "originalarrivaltime"),
)
_CHAT: Final = re.compile(
    r"messages?|conversations?|chats?|chat_messages|dialogs?|dialogues?|turns|history|thread", re.IGNORECASE
)


def chat_text(value: list[Any], name: str = "") -> str:
    """The messages of a chat, a paragraph each, "Olga, 2024-03-01 10:22: See you."; "" if it is none."""
    said = _messages(value, name)
    profiles = ((message.get("user"), message.get("user_profile")) for message in said)
    names = {id: name for id, profile in profiles if isinstance(id, str) and (name := _person(profile))}
    return "\n\n".join(_message(message, names) for message in said)


def _messages(value: list[Any], name: str = "") -> list[Mapping[str, Any]]:
    """The messages of a chat that say something, the first first; none if it is no chat.

    The others, as pictures and calls, have a sender and a time. Programs may send some without a name.
    """
    if not value or not _are_objects(value):
        return []
    # Elsewhere, an author and a text are as likely a review or a mail.
    is_named = bool(_CHAT.fullmatch(name.rpartition(".")[2]))
    who = _WHO if is_named else _SENDER
    said = [message for message in value if _of(message, _WHAT, _words)]
    if 2 * len(said) < len(value):
        sent = sum(bool(_of(message, who, _person) and _of(message, _WHEN, _moment)) for message in value)
        said = said if 2 * sent >= len(value) else []
    if not is_named and any({"title", "subject"} & message.keys() for message in said):
        return []
    unnamed = [message for message in said if not _of(message, who, _person)]
    if 2 * len(unnamed) >= len(said) or not all(_of(message, _WHEN, _moment) for message in unnamed):
        return []
    first, last = (_of(message, _WHEN, _moment) for message in (said[0], said[-1]))
    return said[::-1] if day_of(first) and day_of(last) and first > last else said


def _message(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    when, person = _of(message, _WHEN, _moment), _of(message, _WHO, _person)

    def shown(mention: re.Match[str]) -> str:
        if mention["channel"]:
            return f"#{mention['channel']}"
        address, label = mention["address"], mention["label"]
        return names.get(mention["who"], mention[0]) if not address else f"{label} ({address})" if label else address

    words = as_seen(_MENTION.sub(shown, _of(message, _WHAT, _words)))
    return f"{', '.join(filter(None, (names.get(person, person), when)))}: {words}"


# As Slack writes people, channels and links.
_MENTION: Final = re.compile(
    r"<(?:@(?P<who>\w{1,40})(?:\|[^<>]*)?|#\w+\|(?P<channel>[^<>]+)|(?P<address>https?://[^<>|\s]+)(?:\|(?P<label>[^<>]*))?)>"
)


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

"""LaTeX: what a document prints, below its headings, with a line per row of a table.

Commands that it defines are replaced by what they stand for; tables and figures are numbered as when they are printed.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

from mbc_engine.text.decoding import ByteStream, decode_file
from mbc_engine.text.document import Content, TextBuilder, UnreadableFile, damage_is_unreadable, day_of
from mbc_engine.text.tables import table_lines

# LaTeX's parser reads some 50 kB a second: what is longer stays as it is written.
_MOST_TEX_BYTES: Final = 8 << 20
_LONGEST_PARAGRAPH: Final = 20_000
_MOST_PARAGRAPHS: Final = 10_000
_SIGN: Final = re.compile(r"[\\$~^_]|``|''|--")
_OPTION: Final = r"(?:\[[^\]\n]{0,300}\])?"
_HEADING: Final = re.compile(
    rf"\\(part|chapter|(?:sub){{0,2}}section|(?:sub)?paragraph)\*?[ \t]*{_OPTION}\{{|\\begin\{{abstract\}}"
)
_LEVELS: Final = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
_COMMENT: Final = re.compile(r"(?<!\\)%.*\n?[ \t]*")
# Environments that are not printed, or in another place.
_UNSEEN: Final = re.compile(
    r"\\begin\{(CCSXML|comment|filecontents\*?)\}.*?\\end\{\1\}|\\ccsdesc(?:\[\d+\])?\{[^{}]*\}", re.DOTALL
)
# Environments in which a line break or a mark is part of an equation.
_MATH: Final = re.compile(r"\\begin\{(?:equation|align|gather|multline|eqnarray|displaymath|math)|\$\$|\\\[")
_MARKS: Final = re.compile(
    rf"\\(?:begin|end)\{{[\w*]+\}}{_OPTION}|\\(?:includegraphics|label|vspace|hspace|bibliographystyle|maketitle"
    rf"|tableofcontents|centering|noindent|usepackage|pagestyle)\b\*?{_OPTION}(?:\{{[^{{}}\n]*\}})?"
)
_CITED: Final = re.compile(
    r"\\(?:no)?(?:cite|ref|eqref|autoref|cref|pageref)[a-zA-Z]*\*?(?:\[[^\]\n]{0,300}\]){0,2}\{([^{}\n]*)\}"
)
# A number with its unit, of siunitx.
_QUANTITY: Final = re.compile(
    r"\\(?:(?:SI|qty)(?:\[[^\]\n]{0,300}\])?\{([^{}\n]*)\}|(?:si|unit|num)(?:\[[^\]\n]{0,300}\])?)\{([^{}\n]*)\}"
)
_PREFIX: Final = re.compile(r"(\\(?:nano|micro|milli|centi|deci|hecto|kilo|mega|giga))\s*\\")
_UNITS: Final = {"percent": r"\%", "degreeCelsius": "°C", "celsius": "°C", "degree": "°"}

Printer = Callable[[str], str]  # from LaTeX to what it prints, on a line


def tex_printer() -> Printer:
    """Prints LaTeX; from some length or number of paragraphs on, as it is written."""
    from pylatexenc.latex2text import LatexNodes2Text

    logging.getLogger("pylatexenc").setLevel(logging.CRITICAL + 1)  # it warns on the terminal, in words of the document
    left = _MOST_PARAGRAPHS
    converter = LatexNodes2Text(math_mode="text", keep_comments=False)

    def printed(written: str) -> str:
        nonlocal left
        if not _SIGN.search(plain := re.sub(r"[{}]", "", written)):
            return " ".join(plain.split())
        if len(written) > _LONGEST_PARAGRAPH or left == 0:
            return " ".join(written.split())
        left -= 1
        written = re.sub(r"\\[td]frac(?![a-zA-Z])", r"\\frac", written).replace(r"\|", "‖")
        with suppress(UnreadableFile), damage_is_unreadable():  # else as it is written
            written = str(converter.latex_to_text(written)).replace("^∘", "°")
        return " ".join(written.split())

    return printed


def read_tex(stream: ByteStream) -> Iterator[Content]:
    """What the document prints, titled by its `\\title`; citations and references stand as [key]."""
    data = stream.read_all(_MOST_TEX_BYTES)
    written = decode_file(data)
    source = _COMMENT.sub(lambda match: "\n" * (match.start() == 0 and match[0].endswith("\n")), written)
    source = _numbered(_without_layout(_defined(_UNSEEN.sub("", source))))
    printed = tex_printer()
    title, date = (printed(_argument(source, name)) for name in ("title", "date"))
    pictures = source.count("\\includegraphics")
    _, begins, body = source.partition("\\begin{document}")
    builder = TextBuilder()
    authors = (printed(re.sub(r"\s*\\and\b\s*", ", ", author)) for author in _arguments(source, "author"))
    builder.add(", ".join(filter(None, authors)))
    body = (body if begins else source).partition("\\end{document}")[0]
    end = 0
    for match in _HEADING.finditer(body):
        if match.start() >= end:
            _add(body[end : match.start()], builder, printed)
            end = closing(body, match.end() - 1) if match[1] else match.end()
            heading = body[match.end() : end - 1] if match[1] else "Abstract"
            builder.heading(_LEVELS.index(match[1] or "section") + 1, printed(heading))
    _add(body[end:], builder, printed)
    yield builder.content(data, day_of(date), title=title, losses={"picture": pictures})


_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_MOST_BRACES: Final = 2000


def closing(source: str, start: int) -> int:
    """Where the braces that open at `start` have closed; `start` if they do not, or there are none."""
    depth = 0
    for brace in islice(_BRACE.finditer(source, start), _MOST_BRACES):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth <= 0:
            return brace.end() if brace.start() > start else start
    return start


def _groups(source: str, start: int, most: int) -> tuple[list[str], int]:
    """What stands in the braces from `start` on, up to so many, and where they end."""
    groups = list[str]()
    while len(groups) < most:
        opening = start + len(source[start : start + 100]) - len(source[start : start + 100].lstrip())
        if not source.startswith("{", opening) or (end := closing(source, opening)) == opening:
            break
        groups.append(source[opening + 1 : end - 1])
        start = end
    return groups, start


def _arguments(source: str, command: str) -> Iterator[str]:
    for match in re.finditer(rf"\\{command}(?:\[[^\]\n]{{0,300}}\])?(?=\{{)", source):
        yield from _groups(source, match.end(), 1)[0]


def _argument(source: str, command: str) -> str:
    return next(_arguments(source, command), "")


# Not those that redefine a command, which LaTeX's parser may know.
_DEFINITION: Final = re.compile(
    r"\\(?:newcommand|providecommand|DeclareMathOperator)\*?\s*\{?\s*\\([a-zA-Z]+)\s*\}?\s*(?:\[(\d)\])?(?:\[([^\[\]\n]*)\])?(?=\s*\{)"
    r"|\\def\s*\\([a-zA-Z]+)(?=\{)"
)
_GIVEN: Final = re.compile(r"\s*\[([^\[\]]{0,300})\]")
_MOST_USES: Final = 20_000
_DEEPEST_USE: Final = 4  # of commands in others
_LONGEST: Final = 2000  # of what one stands for


class _Command(NamedTuple):
    """A command that a document defines."""

    body: str
    arguments: int
    otherwise: str | None  # its first argument, where it is not given

    def used(self, source: str, start: int) -> tuple[str, int]:
        """What it stands for with the arguments from `start` on, "" if that is too long, and where they end."""
        values, used = list[str](), self.body
        if self.otherwise is not None:
            given = _GIVEN.match(source, start)
            values, start = [given[1] if given else self.otherwise], given.end() if given else start
        groups, end = _groups(source, start, self.arguments - len(values))
        for place, value in enumerate((*values, *groups), 1):
            if len(used) + len(value) * used.count(f"#{place}") > _LONGEST:
                return "", end
            used = used.replace(f"#{place}", value)
        is_part = "\\begin" in used or "\\end" in used  # of an environment
        return used if is_part else f"{{{used}}}", end


def _defined(source: str) -> str:
    """The source with what it defines as commands in their place."""
    commands, kept, end = dict[str, _Command](), list[str](), 0
    for match in _DEFINITION.finditer(source):
        bodies, after = _groups(source, match.end(), 1)
        if match.start() >= end and bodies and len(bodies[0]) <= _LONGEST:
            body = rf"\operatorname{{{bodies[0]}}}" if "DeclareMath" in match[0] else bodies[0]
            commands[match[1] or match[4]] = _Command(body, int(match[2] or 0), match[3])
            kept.append(source[end : match.start()])
            end = after
    source = "".join((*kept, source[end:]))
    uses, left = re.compile(rf"\\({'|'.join(commands)})(?![a-zA-Z@])"), _MOST_USES * bool(commands)
    for _ in range(_DEEPEST_USE):
        kept, end = [], 0
        for match in islice(uses.finditer(source), left):
            left -= 1
            if match.start() >= end:
                used, after = commands[match[1]].used(source, match.end())
                kept += source[end : match.start()], used or source[match.start() : after]
                end = after
        source = "".join((*kept, source[end:]))
        if not kept or len(source) > 2 * _MOST_TEX_BYTES:
            break
    return source


# Commands whose first arguments, so many of them, or whose options say how something is set; and sums to be worked out.
_LAYOUT: Final = {"fpeval": 1, "resizebox": 2, "scalebox": 1, "rowcolor": 1, "cellcolor": 1, "columncolor": 1}
_LAYOUTS: Final = re.compile(rf"\\(?:({'|'.join(_LAYOUT)})|(?P<cell>makecell|thead|shortstack))\*?{_OPTION}(?=\{{)")


def _without_layout(source: str) -> str:
    kept, end = list[str](), 0
    for match in _LAYOUTS.finditer(source):
        if match.start() >= end:
            kept.append(source[end : match.start()])
            end = match.end() if match["cell"] else _groups(source, match.end(), _LAYOUT[match[1]])[1]
    return "".join((*kept, source[end:]))


_FLOAT: Final = re.compile(
    r"\\(?:begin\{(?P<kind>table|figure|algorithm)\*?\}|(?P<caption>caption)\s*(?:\[[^\]\n]{0,300}\])?\{|label\{(?P<label>[^{}\n]*)\}|end\{(?:table|figure|algorithm)\*?\})"
)
_THEOREM: Final = re.compile(r"\\newtheorem\*?\{(\w+)\}(?:\[\w+\])?\{([^{}\n]+)\}")
_NAMED: Final = re.compile(r"\\begin\{(\w+)\}(?:\[([^\]\n]{1,300})\])?")
_THEOREMS: Final = (
    "theorem lemma proposition corollary definition conjecture claim axiom remark example exercise solution proof"
)
_ITEM: Final = re.compile(r"\\(begin|end)\{(enumerate|itemize|description)\}|\\item\b(?!\s*\[)")


def _numbered(source: str) -> str:
    """The source with the numbers of tables, figures and items, and the names of theorems and the like."""
    names = {name: name.capitalize() for name in _THEOREMS.split()} | dict(_THEOREM.findall(source))

    def named(match: re.Match[str]) -> str:
        name = names.get(match[1])
        return f"\n\n{name}{f' ({match[2]})' if match[2] else ''}. " if name else match[0]

    lists: list[int | None] = []

    def counted(match: re.Match[str]) -> str:
        if match[1] == "begin":
            lists.append(0 if match[2] == "enumerate" else None)
        elif match[1]:
            del lists[-1:]
        elif lists and (number := lists[-1]) is not None:
            lists[-1] = number + 1
            return f"{match[0]}[{number + 1}.]"
        return match[0]

    return _ITEM.sub(counted, _NAMED.sub(named, _THEOREM.sub("", _captioned(source))))


def _captioned(source: str) -> str:
    """The source with "Table 1: " in captions, and this number where it is referred to."""
    kind, current, counts = "", "", Counter[str]()
    numbers: dict[str, str] = {}

    def captioned(match: re.Match[str]) -> str:
        nonlocal kind, current
        if match["kind"]:
            kind, current = match["kind"], ""
        elif match["caption"] and kind:
            counts[kind] += 1
            current = str(counts[kind])
            return f"{match[0]}{kind.capitalize()} {current}: "
        elif match["label"] and current:
            numbers[match["label"]] = current
        elif match[0].startswith(r"\end"):
            kind = current = ""
        return match[0]

    source = _FLOAT.sub(captioned, source)
    return re.sub(r"\\(?:ref|autoref|cref|Cref)\{([^{}\n]*)\}", lambda ref: numbers.get(ref[1], ref[0]), source)


def _quantity(match: re.Match[str]) -> str:
    units = re.sub(r"\\([a-zA-Z]+)\s*", lambda name: f" {_UNITS.get(name[1], name[1])}", _PREFIX.sub(r"\1", match[2]))
    return f"{match[1] or ''} {units.strip()}".strip()


_TABLE: Final = re.compile(
    rf"\\begin\{{(tabular[xy*]?|tabulary|longtable|tblr|NiceTabular[X*]?|supertabular)\}}\s*{_OPTION}\s*"
)
_TWO_ARGUMENTS: Final = ("tabular*", "tabularx", "tabulary", "NiceTabular*", "NiceTabularX")
_RULE: Final = re.compile(
    r"\\(?:(?P<across>hline|toprule|midrule|bottomrule)\b|(?:cline|cmidrule|hhline)\b(?:\([^()]*\))?\{[^{}\n]*\}|addlinespace\b)(?:\[[^\]\n]*\])?"
)


def _add(source: str, builder: TextBuilder, printed: Printer) -> None:
    """The paragraphs, items and tables of a section."""
    source, end = _QUANTITY.sub(_quantity, _CITED.sub(r"[\1]", source)), 0
    for table in _TABLE.finditer(source):
        close = source.find(f"\\end{{{table[1]}}}", table.end())
        if close < 0:
            break
        if table.start() >= end:
            _add_paragraphs(source[end : table.start()], builder, printed)
            _, start = _groups(source, table.end(), 1 + (table[1] in _TWO_ARGUMENTS))
            builder.add_lines(_rows(source[start:close], printed))
            end = close
    _add_paragraphs(source[end:], builder, printed)


_PART: Final = re.compile(r"\\\\\*?(?:\[[^\]\n]{0,30}\])?|\\.|[{}&]", re.DOTALL)


def _rows(inner: str, printed: Printer) -> list[str]:
    """The rows of a table, in which a cell over several of them is repeated in each."""
    rows, above_rule = [list[str]()], list[int]()  # with the numbers of rows above a rule
    inner = re.sub(r"\\CodeBefore\b.*?\\Body\b", "", inner, flags=re.DOTALL)
    cell, end, depth = "", 0, 0
    below: dict[tuple[int, int], str] = {}

    def finish() -> None:
        nonlocal cell
        if any(rule["across"] for rule in _RULE.finditer(cell)):
            above_rule.append(len(rows) - 1)
        text, across, down = _spanning(_RULE.sub("", cell).strip())
        shown = printed(text) or below.get((len(rows), len(rows[-1])), "")
        for column in range(len(rows[-1]), len(rows[-1]) + across):
            below.update({(len(rows) + row, column): shown for row in range(1, down)})
            rows[-1].append(shown)
        cell = ""

    for part in _PART.finditer(inner):
        cell += inner[end : part.start()]
        end = part.end()
        depth += {"{": 1, "}": -1}.get(part[0], 0)
        if depth <= 0 and part[0] == "&":
            finish()
        elif depth <= 0 and part[0].startswith("\\\\"):
            finish()
            rows.append([])
        else:
            cell += part[0]
    cell += inner[end:]
    finish()
    rules = {row for row in above_rule if 0 < row < len(rows) - 1}
    num_headers = min(rules, default=0)
    if (not rules and max(map(len, rows)) > 2) or (rules == {*range(1, len(rows) - 1)} and len(rules) > 1):
        return table_lines(rows)  # of which the rules tell nothing
    return table_lines(rows, num_headers)


_SPANNING: Final = re.compile(r"\\(multicolumn|multirow|Block)\b(?:\[[^\]\n]{0,100}\])*")
_MOST_SPANNED: Final = 100


def _spanning(cell: str) -> tuple[str, int, int]:
    """The text of a cell, and the numbers of columns and rows that it spans; in LaTeX, cells stand below those of several rows."""
    columns = rows = 1
    for _ in range(2):  # a cell over rows may stand in one over columns
        match = _SPANNING.match(cell)
        if match is None:
            break
        source = re.sub(r"^(\\multirow[^{]*\{[^{}]*\}(?:\[[^\]\n]*\])?)\*", r"\1{*}", cell)
        groups, end = _groups(source, match.end(), 2 if match[1] == "Block" else 3)
        if not groups:
            break
        numbers = [min(int(number), _MOST_SPANNED) for number in re.findall(r"\d+", groups[0])]
        if match[1] == "multicolumn":
            columns = max(1, *numbers[:1]) if numbers else 1
        elif numbers:
            rows = max(1, numbers[0])
        cell = f"{groups[-1]}{source[end:]}".strip()
    return cell, columns, rows


def _add_paragraphs(source: str, builder: TextBuilder, printed: Printer) -> None:
    for paragraph in re.split(r"\n\s*\n|(?=\\item\b)|(?=\\caption\b)|(?=\\begin\{(?:equation|align))", source):
        if item := re.match(r"\\item\s*(?:\[([^\]\n]*)\])?", paragraph):
            text = printed(_MARKS.sub(" ", paragraph[item.end() :]))
            label = item[1] or ""
            is_number = label.endswith(".") and label[:-1].isdecimal()
            builder.add(
                f"{label} {text}" if is_number else f"- {printed(label)}: {text}" if label else f"- {text}", "\n"
            )
        else:
            builder.add(printed(paragraph if _MATH.search(paragraph) else _MARKS.sub(" ", paragraph)))

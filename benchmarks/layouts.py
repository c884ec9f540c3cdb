"""Whether answers are found however people lay facts out: the same eight boats as tables, lists, records and prose.

    python benchmarks/layouts.py [--only kv.txt nested.md]

Each layout is a file of its own in a bank of its own. Prints how many of eight questions are answered rightly in each,
with what was answered instead, and the sum.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from mbc_engine import Memory

COLUMNS: Final = ("Boat", "Length", "Berth", "Built", "Skipper")
BOATS: Final = [
    line.split("|")
    for line in (
        "Albatross|9.4 m|12|1987|Ruth Meyer",
        "Curlew|7.1 m|3|1999|Tomas Lind",
        "Dunlin|6.5 m|18|2004|Petra Voss",
        "Fulmar|11.2 m|7|1978|Arne Holt",
        "Gannet|8.8 m|21|2011|Ines Prado",
        "Kittiwake|5.9 m|15|1993|Olu Adeyemi",
        "Plover|10.3 m|2|2016|Hana Sato",
        "Sanderling|7.7 m|9|1985|Karl Brandt",
    )
]
QUESTIONS: Final = {
    "How long is the Curlew?": "7.1",
    "When was the Plover built?": "2016",
    "Who is the skipper of the Gannet?": "Ines Prado",
    "Who sails the Sanderling?": "Karl Brandt",
    "what year was kittiwake built": "1993",
    "Who is the skipper of the Dunlin?": "Petra Voss",
    "How long is the Albatross?": "9.4",
    "What berth does the Fulmar have?": "7",
}


def each(form: str, between: str = "\n") -> str:
    """A form filled for each boat: {0} is its name, {1} its length and so on."""
    return between.join(form.format(*boat) for boat in BOATS)


def columns(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("".join(cell.ljust(14) for cell in row).rstrip() for row in rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    first, *others = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join(["# Boats", "", first, "|---" * len(rows[0]) + "|", *others])


def cells(row: Sequence[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>"


def html_table(rows: Sequence[Sequence[str]]) -> str:
    return f"<h1>Boats</h1><table>{''.join(map(cells, rows))}</table>"


_FIELDS = "Length: {1}\nBerth: {2}\nBuilt: {3}\nSkipper: {4}"
_BULLETS = "- length: {1}\n- berth: {2}\n- built: {3}\n- skipper: {4}"
_UNNAMED = [("", *COLUMNS[1:]), *BOATS]
LAYOUTS: Final[dict[str, Callable[[], str]]] = {
    "table.md": lambda: table([COLUMNS, *BOATS]),
    "unnamed-column.md": lambda: table(_UNNAMED),
    "transposed.md": lambda: table([*zip(*_UNNAMED, strict=True)]),
    "headless.html": lambda: html_table(BOATS),
    "unnamed-column.html": lambda: html_table(_UNNAMED),
    "cards.html": lambda: each("<div><h3>{0}</h3><div>Length: {1}</div><div>Berth: {2}</div>"
                               "<div>Built: {3}</div><div>Skipper: {4}</div></div>"),
    "terms.html": lambda: "<dl>" + each("<dt>{0}</dt><dd>Length: {1}</dd><dd>Berth: {2}</dd>"
                                        "<dd>Built: {3}</dd><dd>Skipper: {4}</dd>") + "</dl>",
    "columns.txt": lambda: columns([COLUMNS, *BOATS]),
    "headless-columns.txt": lambda: columns(BOATS),
    "tabs.txt": lambda: "\n".join("\t".join(row) for row in [COLUMNS, *BOATS]),
    "index.csv": lambda: "\n".join(",".join(row) for row in [("", *COLUMNS), *(("1", *boat) for boat in BOATS)]),
    "table.tex": lambda: "\\begin{tabular}{lllll}\n" + each("{0} & {1} & {2} & {3} & {4} \\\\") + "\n\\end{tabular}",
    "table.rst": lambda: f"{'=' * 11}  " * 5 + "\n" + columns([COLUMNS, *BOATS]) + "\n" + f"{'=' * 11}  " * 5,
    "records.txt": lambda: each("Boat: {0}\n" + _FIELDS, "\n\n"),
    "ruled-records.txt": lambda: each("Boat: {0}\n" + _FIELDS, "\n---\n"),
    "sections.md": lambda: "# Boats\n\n" + each("## {0}\n\n" + _BULLETS, "\n\n"),
    "nested.md": lambda: "# Boats\n\n" + each("- {0}\n" + re.sub("^", "  ", _BULLETS, flags=re.MULTILINE)),
    "bold.md": lambda: "# Boats\n\n" + each("**{0}**  \n" + _FIELDS.replace("\n", "  \n"), "\n\n"),
    "properties.org": lambda: each("** {0}\n:PROPERTIES:\n:length: {1}\n:built: {3}\n:END:\nBerth {2}, skipper {4}"),
    "sections.ini": lambda: each("[{0}]\nlength = {1}\nberth = {2}\nbuilt = {3}\nskipper = {4}", "\n\n"),
    "list.yaml": lambda: "boats:\n" + each("  - name: {0}\n    length: {1}\n    berth: {2}\n    built: {3}\n    skipper: {4}"),
    "map.yaml": lambda: "boats:\n" + each("  {0}:\n    length: {1}\n    berth: {2}\n    built: {3}\n    skipper: {4}"),
    "map.json": lambda: json.dumps({boat[0]: dict(zip(COLUMNS[1:], boat[1:], strict=True)) for boat in BOATS}),
    "list.json": lambda: json.dumps([dict(zip(COLUMNS, boat, strict=True)) for boat in BOATS]),
    "boats.xml": lambda: "<boats>" + each("<boat name='{0}'><length>{1}</length><berth>{2}</berth><built>{3}</built>"
                                          "<skipper>{4}</skipper></boat>") + "</boats>",
    "boats.py": lambda: "BOATS = {{\n{}\n}}".format(each('    "{0}": Boat("{1}", berth={2}, built={3}, skipper="{4}"),')),
    "boats.sql": lambda: each("INSERT INTO boats (name, length, berth, built, skipper) "
                              "VALUES ('{0}', '{1}', {2}, {3}, '{4}');"),
    "numbered.md": lambda: "# Boats\n\n" + each("1. {0} ({1}, berth {2}), built {3}, skipper {4}"),
    "commas.md": lambda: "# Boats (length, berth, built, skipper)\n\n" + each("- {0}, {1}, {2}, {3}, {4}"),
    "colons.md": lambda: "# Boats\n\n" + each("- {0}: {1}, berth {2}, built {3}, {4}"),
    "dashes.eml": lambda: "From: a@example.org\nSubject: boats\n\n" + each("{0} - {1} - berth {2} - built {3} - {4}"),
    "paragraphs.txt": lambda: each("{0}. Length {1}, berth {2}. Built {3}. Skipper is {4}.", "\n\n"),
    "prose.txt": lambda: each("The {0} is {1} long and lies at berth {2}; built in {3}, skippered by {4}.", " "),
}  # fmt: skip


def wrong_answers(name: str, text: str) -> list[str | None]:
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text(text, encoding="utf-8")
        with Memory(Path(folder, "boats.mbc")) as memory:
            for _ in memory.add([Path(folder, name)]):
                pass
            for question, gold in QUESTIONS.items():
                answer = memory.ask([question])[0].text
                if not re.search(rf"(?<![\w.]){re.escape(gold)}(?!\w)", answer or ""):
                    wrong.append(answer)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    right, chosen = 0, parser.parse_args().only
    for name in chosen:
        wrong = wrong_answers(name, LAYOUTS[name]())
        right += len(QUESTIONS) - len(wrong)
        print(f"{name}: {len(QUESTIONS) - len(wrong)} of {len(QUESTIONS)}", *map(repr, wrong), flush=True)
    print(f"{right} of {len(QUESTIONS) * len(chosen)} questions answered rightly in {len(chosen)} layouts")


if __name__ == "__main__":
    main()

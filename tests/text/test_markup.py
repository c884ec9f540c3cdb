"""LaTeX, reStructuredText, Org and source code: their text, and the headings or definitions around it."""

import pytest

from tests.text.conftest import sections


def test_latex(read_one):
    document = read_one(
        "a.tex",
        r"""\documentclass{article}\title{The \emph{mill}}\author{Renate Olufsen \and Hiro Tanabe}\date{1 May 2024}
\begin{document}\maketitle
\section{Wheel}\label{a}
It costs \$5 \cite{x} at 3~$^\circ$C, $E=mc^2$ caf\'e. % comment
100\% \textbf{bold}, \SI{3}{\kilo\metre\per\hour} and \qty[x]{5}{\percent}.
\begin{itemize}\item One \item[Two] three\end{itemize}
\begin{tabular}{ll} Name & Cost \\ \hline Boat \& oar & 5 \\ \end{tabular}
\includegraphics[width=1cm]{x.png}
\subsection*{Deep}
\begin{equation}a_i\end{equation}
\end{document} after""",
    )
    assert document.text == (
        "Renate Olufsen, Hiro Tanabe\n\nWheel\n\nIt costs $5 [x] at 3 °C, E=mc^2 café. 100% bold, 3 kilometre per hour and 5 %.\n- One\n- Two: three\n\nName: Boat & oar; Cost: 5\n\nDeep\n\na_i"
    )
    assert (document.title, document.date, document.losses) == ("The mill", "2024-05-01", ("1 picture",))
    assert sections(document) == [("Wheel", "Wheel"), ("Deep", "Wheel > Deep")]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        # Commands that it defines, also endless ones.
        ((r"\newcommand{\mill}{Olufsen's mill}\newcommand{\cost}[2][EUR]{#2~#1}\DeclareMathOperator{\KL}{KL}"
          r"\begin{document}\mill{} costs \cost{5} or \cost[SEK]{\textbf{9}}, and $\KL(p\|q)=\tfrac12$.\end{document}"),
         "Olufsen's mill costs 5 EUR or 9 SEK, and KL(p‖q)=1/2."),
        (r"\newcommand{\a}{\a\a\a}\begin{document}\a x\end{document}", "x"),
        # Tables and items are numbered, theorems named.
        (r"""\begin{document}\begin{abstract}Short.\end{abstract}\section{Tides}See Table~\ref{t} and \ref{s}.
\begin{table}\caption{Berths.}\label{t}\end{table}\begin{enumerate}\item Row.\item Rest.\end{enumerate}

\begin{theorem}[Range]It is small.\end{theorem}\end{document}""",
         ("Abstract\n\nShort.\n\nTides\n\nSee Table 1 and [s].\n\nTable 1: Berths.\n1. Row.\n2. Rest.\n\n"
          "Theorem (Range). It is small.")),
        (r"\author{Renate Olufsen}\author[2]{Hiro Tanabe}\begin{document}x\ccsdesc[500]{Networks}\end{document}",
         "Renate Olufsen, Hiro Tanabe\n\nx"),
    ],
)  # fmt: skip
def test_text_of_latex(read_one, page, text):
    assert read_one("a.tex", page).text == text


def test_bibliographies(read):
    first, second = read(
        "a.bib",
        r"""@string{jcm = "Journal of Coastal Mills"} @comment{x, y = {z}} Not an entry.
@Article{olufsen:2020, author = {Olufsen, Ren{\'e} and {The Mill Group} and others}, title = "The {T}arnby " # {mill},
  journal = jcm, year = 2020, month = mar, pages = {117--128}, doi = {10.5555/a_b}}
@phdthesis(tanabe, author={Hiro Tanabe}, title={Wheels}, school={Tarnby}, date={2021-05})""",
    )
    mill = "Title: The Tarnby mill; Authors: René Olufsen, The Mill Group, et al.; Year: 2020"
    assert first.part == "olufsen:2020"
    assert first.text == (
        f"{mill}; Journal: Journal of Coastal Mills; Month: March; Pages: 117-128; DOI: 10.5555/a_b; Type: article; "
        "Cited as: olufsen:2020"
    )
    assert second.text == (
        "Title: Wheels; Authors: Hiro Tanabe; Year: 2021-05; School: Tarnby; Type: PhD thesis; Cited as: tanabe"
    )
    grown = "".join(f"@string{{s{at + 1} = s{at} # s{at} # s{at}}}" for at in range(30))
    (bounded,) = read("a.bib", f"@string{{s0 = {{mill }}}}{grown}@book{{grown, title = s30}}")
    assert len(bounded.text) < 1000  # each string is three of the one before
    (other,) = read("a.bib", "no entries")
    assert other.text == "no entries"


def test_faulty_latex_warns_of_nothing(read_one, caplog):
    read_one("a.tex", r"a \frac")
    assert not caplog.records


def test_plain_text(read_one, read):
    text = "A MANUAL\n\n1. Care\n\nText.\n\n1.1 Filter\n\nShort line.\n\nno heading\n\nAnode\n-----\nEnd.\n"
    document = read_one("a.txt", text)
    assert document.text == text
    assert sections(document) == [
        *(("A MANUAL", "A MANUAL"), ("1. Care", "1. Care")),
        *(("1.1 Filter", "1. Care > 1.1 Filter"), ("Anode", "1. Care > Anode")),
    ]
    assert read_one("a.txt", "A TITLE\n\nText.").sections == ()
    marked = "= The mill\nx\n\n== Wheel ==\na\n== 5 passed ==\n\n== 5 ==\n\nWho owns a road\n=====\nThe road\nb\n\n=== Deep\n\nc\n== d"
    assert sections(read_one("a.adoc", marked)) == [
        *(("= The mill", "The mill"), ("== Wheel ==", "The mill > Wheel"), ("=== Deep", "The mill > Wheel > Deep"))
    ]
    short = "HEADING ONE\n===\na\n\nA VERY LONG CAPITAL LINE\n---\nb"
    assert [line for line, _ in sections(read_one("a.txt", short))] == ["HEADING ONE", "A VERY LONG CAPITAL LINE"]
    (first, *_, last) = read("a.txt", "FIRST\n\na\n\nLAST\n\n" + "words and words.\n" * 5000)
    assert (sections(first)[-1], last.sections[0]) == (("LAST", "LAST"), (0, "LAST"))


def test_manual_page(read_one):
    page = (
        '.\\" a comment\n.TH TIDE 1 "May 2024"\n.SH NAME\ntide \\- predict tides\n.SH OPTIONS\n.TP\n.BR \\-z ", " \\-\\-zone\n'
        "Use \\fIthe\\fR zone\\&.\n.IP \\-t 4\nBe terse.\n.PP\nThe\n.B end \\(em\n.br\nagain.\n.SS Files\n.It Fl v Ar file\nTell.\n"
    )
    document = read_one("tide.1", page)
    assert document.text == (
        "NAME\n\ntide - predict tides\n\nOPTIONS\n\n-z, --zone\nUse the zone.\n\n-t\nBe terse.\n\nThe end \u2014\nagain.\n\n"
        "Files\n\n-v file\nTell."
    )
    assert document.title == "TIDE(1)"
    assert [context for _, context in sections(document)] == ["NAME", "OPTIONS", "OPTIONS > Files"]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (".de Sp\n.if t .sp\nhidden\n..\n.Sp\nshown", "shown"),
        (".de Sp\nnever closed", "never closed"),
        ("a\n.ie n \\{\\\n\\h'-04'\\(bu\\h'+03'\\c\n.\\}\n.el \\{\\\n.sp -1\n.IP \\(bu 2.3\n.\\}\nb", "a \u2022 b"),
        (".if t paper\n.if n terminal\n.ie \\n(.g groff\n.el other", "terminal other"),
        (".if t \\{\\\nnever closed", "never closed"),
        (".if n \\{\n.ie t \\{ typeset \\}\n.el \\{ terminal \\}\nand\n.\\}\nend", "terminal and end"),
        (".if t\\{\\\nhidden\n.\\}\nshown", "shown"),
        ("one\\*(Aqs \\*[lq]own\\*[rq]\\*x \\*(zzend", "one's \u201cown\u201d end"),
        (".if n .if n nested", "nested"),
        (".de ZZ END\nhidden\n.END\nshown\n..", "shown"),
        (".am ZZ\nhidden\n..\n.B\tshown", "shown"),
        (".TS\nl l.\na\tb\n.SH AFTER\nend", "a: b\n\nAFTER\n\nend"),
        (".SH No warranty\n.I No data is lost .", "No warranty\n\nNo data is lost ."),
        (".Nm tmux\nand\n.Nm ,\n.Nm dir\nof\n.Nm", "tmux and tmux, dir of tmux"),
        (".\na\n.\nb\n.nf\n  c\nd\n.fi\ne\nf", "a b\nc\nd\ne f"),
        (".RS 4\na\n.RE\nb\n.IX Item x", "a\nb"),
        ((".TS\nallbox tab(@);\nl l.\nKey@Means\n_\nT{\nTIDE_ZONE\n.B or zone\nT}@T{\nthe zone\nT}\n"
          "\\-q@be quiet\n.TE\nend"),
         "Key: TIDE_ZONE or zone; Means: the zone\nKey: -q; Means: be quiet\n\nend"),
        ((".Dd May 1, 2024\n.Dt TIDE 1\n.Os\n.Nm tide\n.Op Fl z Ar zone\n.Pp\n.Nm\nreads\n.Pa /etc/tide .\n"
          ".Bl -tag -width Ds -compact\n.It Fl z\nZone, see\n.Xr tz 5 ,\nor\n.Ar file .\n.El"),
         "tide -z zone\n\ntide reads /etc/tide.\n\n-z\nZone, see tz(5), or file."),
    ],
)  # fmt: skip
def test_roff(read_one, page, text):
    assert read_one("tide", f'.\\" a comment\n{page}').text == text


@pytest.mark.parametrize(
    "page", [".if n " * 4000 + "x", ".if t \\{\n" * 40_000, ".de A\n" * 40_000, ".TS\nl.\n" + "T{\n" * 40_000]
)
def test_roff_that_never_closes(read_one, page):
    """In linear time, without recursion: the last ones would take minutes."""
    assert read_one("tide", f".TH TIDE 1\n{page}\nend").text.endswith("end")


def test_restructured_text(read_one):
    table = "====  ===\nb     c\n====  ==="
    text = f"=====\nTitle\n=====\n\n:date: 2024-05-01\n\nOne\n---\n- a\n\n{table}\n\nTwo\n---\nend\n"
    document = read_one("a.rst", text)
    assert (document.text, document.date) == (text, "2024-05-01")
    assert sections(document) == [("=====", "Title"), ("One", "Title > One"), ("Two", "Title > Two")]


def test_org(read_one):
    text = "#+TITLE: Notes\n#+DATE: <2024-05-01 Wed>\n* TODO [#A] Orion :work:\n| a | b |\n|---+---|\n| 1 | 2 |\n** Deep\nx"
    document = read_one("a.org", text)
    assert (document.title, document.date) == ("Notes", "2024-05-01")
    assert "\na: 1; b: 2\n** Deep" in document.text
    assert sections(document) == [("* TODO [#A] Orion :work:", "Orion"), ("** Deep", "Orion > Deep")]


@pytest.mark.parametrize(
    ("name", "table", "lines"),
    [
        ("a.tex",
         (r"\begin{document}\begin{tabular}{@{}l*{2}{@{\hspace{3pt}}c}@{}}\toprule & \multicolumn{2}{c}{\textbf{Cork}} \\"
          r" \cmidrule(lr){2-3} Boat & May & \makecell[l]{June \\ (dry)} \\ \midrule \multirow{2}{*}{Ada} & 1 & 2 \\"
          r" & 3 & 4 \\ \bottomrule\end{tabular}\end{document}"),
         "Boat: Ada; Cork May: 1; Cork June (dry): 2\nBoat: Ada; Cork May: 3; Cork June (dry): 4"),
        ("a.tex",
         r"\begin{document}\begin{tabular}{ll}RPM & turns a minute \\ KN & knots \\ \end{tabular}\end{document}",
         "RPM: turns a minute\nKN: knots"),
        ("a.tex",
         (r"\begin{document}\resizebox{\textwidth}{!}{\begin{tabularx}{9cm}{lX}\hline Boat & Berth \\ \hline Ada & 7"
          r" \\[2pt] Eos & 8 \\ \hline\end{tabularx}}\end{document}"),
         "Boat: Ada; Berth: 7\nBoat: Eos; Berth: 8"),
        ("a.org", "|a|1|\n|b|2|\n|-\n|Sum|3|", "a: 1\nb: 2\nSum: 3"),
        ("a.org", "|Anna|3|\n|-\n|Ben|4|\n|-\n|Cy|5|", "Anna: 3\nBen: 4\nCy: 5"),
        ("a.org", "|Name|Role|\n|Anna|Cook|\n|Ben|Mate|\n|-\n|Cy|Mate|",
         "Name: Anna; Role: Cook\nName: Ben; Role: Mate\nName: Cy; Role: Mate"),
        ("a.org", "|-\n|Name|Role|\n|-\n|Anna|Cook|\n|-", "Name: Anna; Role: Cook"),
        ("a.org", "|Size|Size|Fee|\n|up|to|EUR|\n|-\n|a|b|c|", "Size up: a; Size to: b; Fee EUR: c"),
        ("a.org", "|Name|Role|\n|Anna|Cook|\n|-", "Name: Anna; Role: Cook"),
        ("a.adoc", '.Plans\n[cols="1,1",options="header"]\n|===\n|Plan |Seats\n|Team\n|25\n|Fleet |100\n|===\nend',
         ".Plans\nPlan: Team; Seats: 25\nPlan: Fleet; Seats: 100\nend"),
        ("a.adoc", "[cols=2*]\n|===\n|Oak |3 a\\|b\n|Elm a|* x\n|===", "Oak: 3 a|b\nElm: * x"),
        ("a.adoc", "|===\n|Plan |Seats\n\n|Team |25\n|===", "Plan: Team; Seats: 25"),
        ("a.adoc", "|===\n|Boat |Berth |Fee\n\n.2+|Curlew |3 |10\n|4 |12\n2+|Both |15\n|Heron |9 |8\n|===",
         "Boat: Curlew; Berth: 3; Fee: 10\nBoat: Curlew; Berth: 4; Fee: 12\nBoat: Both; Berth: Both; Fee: 15\nBoat: Heron; Berth: 9; Fee: 8"),
        ("a.adoc", '[%header]\n[cols="1,2*"]\n.Rates\n|===\n|Lock\n|Fee\n|Day\n|Enns\n|5\n|Mon\n|===',
         ".Rates\nLock: Enns; Fee: 5; Day: Mon"),
        ("a.adoc", '[options="noheader"]\n|===\n|Enns |5\n\n|Traun |6\n|===', "Enns: 5\nTraun: 6"),
        ("a.adoc", "[format=csv]\n|===\na,b\n|===", "[format=csv]\n|===\na,b\n|==="),
        ("a.adoc", "|===\n|not closed", "|===\n|not closed"),
        ("a.wiki", '{| class="wikitable"\n|+ Locks\n! scope="col" | Lock\n! Height\n|-\n| Enns\n| style="x:y" | 11.5 m\n|-\n! Traun\n| 14 m\n|}\nend',
         "Locks\nLock: Enns; Height: 11.5 m\nLock: Traun; Height: 14 m\nend"),
        ("a.wiki", "{|\n! Lock !! Owner\n|-\n| ''Enns'' || [[Hydro Tirol|Hydro]] [[Ltd.|]]\n|}", "Lock: Enns; Owner: Hydro Ltd."),
        ("a.wiki", '{|\n|+ class="x" | Fees\n! Lock !! Berth || Fee\n|-\n| rowspan="2" | Enns || 3 || 10\n|-\n| 4 || 12!!\n|-\n| colspan=2 | Both || 15\n|}',
         "Fees\nLock: Enns; Berth: 3; Fee: 10\nLock: Enns; Berth: 4; Fee: 12!!\nLock: Both; Berth: Both; Fee: 15"),
        ("a.wiki", "{|\n! Lock !! Fee\n|-\n{{Toll|Enns|5}}\n|-\n| Traun || 6\n|}", "Lock: {{Toll|Enns|5}}\nLock: Traun; Fee: 6"),
    ],
)  # fmt: skip
def test_tables(read_one, name, table, lines):
    assert read_one(name, table).text == lines


PYTHON = '''import os

# The account.
class Account(Base):
    """Doc."""
    def deposit(self, amount):
        if amount:
            return 1

    @property
    async def total(self): ...

def main():
    pass

main()
'''
C = """#include <stdio.h>
/* adds */
static int *add(int a, int b)
{
    if (a) {
        return call(b);
    }
}
class Foo : Bar {
  public void run(String s) {
  }
}
func (r *Recv) Name(x int) error {
}
export const f = async (x) => {
};
CREATE TABLE IF NOT EXISTS boats (id int);

-- Long ones.
create view long_boats as
select id
from boats;

select 1;
"""
CONSTANTS = """export interface Boat {
  length: number;
}

/** In knots. */
export const TOP_SPEED = 9;
export const BERTHS = 4;

type Id = number;
let last = 0;
"""


PYTHON_DEFINED = [
    *(("# The account.", "Account"), ("def deposit(self, amount):", "Account > deposit")),
    *(("@property", "Account > total"), ("def main():", "main"), ("main()", "")),
]
C_DEFINED = [
    *(("/* adds */", "add"), ("class Foo : Bar {", "Foo"), ("public void run(String s) {", "Foo > run")),
    *(("func (r *Recv) Name(x int) error {", "Name"), ("export const f = async (x) => {", "f")),
    *(("CREATE TABLE IF NOT EXISTS boats (id int);", "boats"), ("-- Long ones.", "long_boats"), ("select 1;", "")),
]
CONSTANTS_DEFINED = [
    *(("export interface Boat {", "Boat"), ("/** In knots. */", "")),
    *(("type Id = number;", "Id"), ("let last = 0;", "")),
]


@pytest.mark.parametrize(
    ("text", "expected"), [(PYTHON, PYTHON_DEFINED), (C, C_DEFINED), (CONSTANTS, CONSTANTS_DEFINED)]
)
def test_code(read_one, text, expected):
    document = read_one("a.py", text)
    assert document.text == text
    assert sections(document) == expected

"""The README's recording: what a terminal showed and when, drawn so that it plays and stands still where it should."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from drawing import draw
from record import COMMANDS, PICTURE, RecordedShell
from screens import Frame, Output, Run, Style, shown

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"
PLAIN = Style()


def texts(frame: Frame) -> list[str]:
    return ["".join(run.text for run in line) for line in frame.lines]


def test_a_screen_has_what_was_written_with_its_style_and_its_cursor() -> None:
    (frame,) = shown([Output(b"\x1b[2mfaint\x1b[0m \x1b[1;32mok", 5.0)], [], (10, 2), 3.0)
    assert frame == Frame(
        0.0,
        (
            (
                Run(0, "faint", Style(is_faint=True)),
                Run(6, "ok", Style("green", is_bold=True)),
                Run(8, " ", Style(is_reversed=True)),
            ),
            (),
        ),
    )


def test_what_is_written_over_is_gone_and_full_screens_scroll() -> None:
    output = [Output(b"\x1b[?25l1%\r2%\r\nb", 0.0), Output(b"\r\nc", 1.0)]
    assert [texts(frame) for frame in shown(output, [], (10, 2), 3.0)] == [["2%", "b"], ["b", "c"]]


def test_commands_that_take_longer_than_the_longest_are_drawn_evenly_in_that_time() -> None:
    output = [Output(b"%d" % second, float(second)) for second in (0, 1, 3, 5, 9, 10, 12)]
    drawn = [frame.at for frame in shown(output, [(1.0, 9.0), (10.0, 12.0)], (10, 2), 2.0)]
    assert drawn == [0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def test_changes_of_a_moment_are_one_screen() -> None:
    output = [Output(b"a", 0.0), Output(b"b", 0.01), Output(b"c", 1.0)]
    assert [(frame.at, texts(frame)[0][:3].strip()) for frame in shown(output, [], (10, 1), 3.0)] == [
        (0.0, "ab"),
        (1.0, "abc"),
    ]


@pytest.fixture
def drawn() -> ET.Element:
    """a; then a above b; then b above c."""
    a, b, c = ((Run(0, text, PLAIN),) for text in ("a", "b", "<c>"))
    frames = [Frame(0.0, (a, ())), Frame(1.0, (a, b)), Frame(3.0, (b, c))]
    return ET.fromstring(draw(frames, 4.0, (10, 2), "A & B"))


def test_lines_are_seen_from_when_they_come_until_they_change(drawn: ET.Element) -> None:
    style = drawn.findtext(f"{SVG}style") or ""
    lines = {group.get("id"): "".join(group.itertext()) for group in drawn.iter(f"{SVG}g") if group.get("id")}
    seen = set()
    for use in drawn.iter(f"{SVG}use"):
        steps = re.search(rf"@keyframes {use.get('class')}{{(.*?}})}}", style)
        assert steps
        seen.add((lines[(use.get("href") or "")[1:]], float(use.get("y") or ""), steps[1]))
    assert seen == {
        ("a", 0.0, "0.000%{opacity:1}75.000%{opacity:0}"),
        ("b", 18.0, "0%{opacity:0}25.000%{opacity:1}75.000%{opacity:0}"),
        ("b", 0.0, "0%{opacity:0}75.000%{opacity:1}"),
        ("<c>", 18.0, "0%{opacity:0}75.000%{opacity:1}"),
    }


def test_without_motion_the_last_screen_stands(drawn: ET.Element) -> None:
    style = drawn.findtext(f"{SVG}style") or ""
    still = set(re.findall(r"\.(t\d+){animation-name:t\d+;opacity:1}", style))
    assert sorted(use.get("y") for use in drawn.iter(f"{SVG}use") if use.get("class") in still) == ["0", "18"]
    assert "@media (prefers-reduced-motion:reduce){use{animation:none!important}}" in style


def test_a_shell_is_typed_into_and_says_when_it_was_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("record.BETWEEN_KEYS", 0.005)
    shell = RecordedShell(tmp_path, {"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", "PS1": "\x1b]133;A\x07$ "})
    shell.type([("echo one; pwd", 0.0), ("echo $((1 + 1))", 0.0)])
    last = shown(shell.output, shell.at_work, (120, 24), 3.0)[-1]
    assert texts(last)[:5] == ["$ echo one; pwd", "one", str(tmp_path), "$ echo $((1 + 1))", "2"]
    assert all(start <= end for start, end in shell.at_work)
    assert all(end <= start for (_, end), (start, _) in pairwise(shell.at_work))


def test_the_picture_shows_these_commands_small_and_by_itself() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    shows = {"".join(group.itertext()).strip() for group in ET.fromstring(text).iter(f"{SVG}g") if group.get("id")}
    assert {f"$ {command}" for command, _ in COMMANDS} <= {line.strip() for line in shows}
    assert len(text) < 150_000
    assert "<script" not in text
    assert not re.findall(r"@import|url\(|(?:href|src)=\"(?!#)", text)

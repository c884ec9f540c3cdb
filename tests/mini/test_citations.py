"""What a written answer says must stand in what it cites."""

import pytest

from mbc_engine.mini.citations import cited, unsupported

PASSAGES = (
    "(bridge.md 2024-03-12)\nThe Haug bridge was closed in May after a storm. Ada Holm repaired it for 1,240 euros.",
    "(report.pdf)\nThree ferries replaced it. Leif Brandt, the harbour master, called that a stopgap.",
)


@pytest.mark.parametrize(
    "text",
    [
        "The bridge was closed after a storm [1].",
        "Ada Holm repaired the Haug bridge for 1240 euros [1]. Then 3 ferries replaced it [2].",
        "It was closed in May [1], and three ferries replaced it [1][2].",
        "The note is of 12 March 2024 [1].",
        "Leif Brandt called the ferries a stopgap.",
        "Brandt was the harbour master. [2]",
        "",
    ],
)
def test_supported(text):
    assert unsupported(text, PASSAGES) == ()


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("The bridge was closed in June [1].", "June"),
        ("Ada Brandt repaired the bridge [1].", "Brandt"),
        ("Ada Holm repaired it for 1,250 euros [1].", "1,250"),
        ("Three ferries replaced it [1].", "Three"),
        ("The bridge was closed [3].", "[3]"),
        ("It reopened quickly because engineers volunteered [1].", "engineers"),
        ("Ada Holm lives in Oslo.", "Oslo"),
    ],
)
def test_not_supported(text, without):
    assert unsupported(f"The bridge was closed after a storm [1]. {text}", PASSAGES) == (text,)
    assert without in text


def test_citations():
    assert cited("It was [2]. Then [1, 3][2]; see a[0] of list[12].") == [2, 1, 3, 0, 12]
    assert cited("Nothing [here].") == []

"""Telling languages apart, careful not to flag English."""

import pytest

from mbc_engine.text.language import seems_english

ENGLISH = (
    "text", "Who repaired the bridge?", "who sang la vie en rose", "What does 東京 mean?", "Oscar de la Hoya",
    "Ludwig Mies van der Rohe", "Der Spiegel", "Les Misérables", "Cien años de soledad", "Kim Jong Un",
    "def main(self): return x", "SELECT * FROM users WHERE id = 3", "β and λ", "π", "belgium panama score",
    "17 31 4.5 kg", "", "observer: IM; site: DE; lapidarius: 1; pascuorum: 9",
)  # fmt: skip
OTHER = (
    "text", "Wer hat die Brücke repariert?", "warum stürzte der Kran um", "Qui a réparé le pont ?",
    "¿Quién reparó el puente?", "Dónde nació Valeska Paris", "Waarom is de brug gesloten?", "Hur gammal är bron?",
    "Кто починил мост?", "من أصلح الجسر؟", "谁创办了wikiHow\uff1f", "どこ",
    "Die Brücke wurde nach dem Sturm von Ada repariert, und sie ist seit 1954 wieder offen.",
    "Le pont a été réparé par Ada après la tempête ; il est ouvert depuis 1954 (see the English page for more).",
)  # fmt: skip


@pytest.mark.parametrize("text", [*ENGLISH, *OTHER])
def test_languages(text):
    assert seems_english(text) == (text in ENGLISH)

"""Calibration: what is asked of which bank, what is fitted to it, and where that is kept."""

import os
import tomllib
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from mbc_engine import Confidence, calibrate, load_model
from mbc_engine.config import ConfidenceSettings
from mbc_engine.errors import DataError, ModelError
from mbc_engine.events import Calibrated
from mbc_engine.paper.calibration import deal, require_writable, roc_auc, store
from mbc_engine.paper.checkpoint import save_model
from mbc_engine.paper.confidence import ALWAYS_UNSURE, judge

SETTINGS = ConfidenceSettings(slope=1.25, intercept=-0.5, from_memory=0.75, from_model=0.125)


class Oracle:
    """A model whose memory is the texts themselves; it gains 1 where one is about the name in the question, else 0.

    It errs in the questions about some names, where its gains are the wrong way round.
    """

    def __init__(self, monkeypatch, errs=()):
        self.errs, self.banks, self.asked = errs, [], []
        self.reader = Mock()
        monkeypatch.setattr("mbc_engine.paper.calibration.memorise_documents", self.memorise)

    def memorise(self, model, texts):
        self.banks.append(texts)
        return texts, None

    def read(self, questions, memory, *, top, reader):
        self.reader.assert_called_once()  # and kept: each projects the codebook anew
        return memory

    def generate_answers(self, reading, questions):
        return [f"about {question}" for question in questions]

    def memory_gains(self, reading, questions, answers):
        assert answers == self.generate_answers(reading, questions)
        gains = []
        for name in (question.split()[2] for question in questions):
            is_there = any(text.startswith(f"{name} ") for text in reading)
            self.asked.append((name, is_there))
            gains.append(float(is_there != (name in self.errs)))
        return gains


def calibrated(model, examples, **options):
    *_, last = calibrate(model, examples, **options)
    assert isinstance(last, Calibrated)
    return last


def test_questions_are_asked_with_and_without_document(monkeypatch, examples):
    model, some = Oracle(monkeypatch), examples(44)
    made = calibrated(model, some, bank_documents=10)
    names = [example.question.split()[2] for example in some]
    assert Counter(model.asked) == Counter((name, in_bank) for name in names[:40] for in_bank in (True, False))
    # The four that fill no bank are left out; neighbours go to different banks.
    assert model.banks == [[example.text for example in some[bank:40:4]] for bank in range(4)]
    assert (made.questions, made.held_out, made.bank_documents, made.auc) == (40, 20, 10, 1.0)
    assert (made.informed_memory, made.informed_unsure, made.informed_model) == (100, 0, 0)
    assert (made.uninformed_memory, made.uninformed_unsure, made.uninformed_model) == (0, 0, 100)
    # Twenty were fitted to: Platt's targets are 21/22 and 1/22, and the line meets both.
    assert (made.slope, made.intercept) == pytest.approx((2 * np.log(21), -np.log(21)))
    assert made.from_memory == made.from_model == pytest.approx(0.5)


def test_rates_are_of_held_out_questions(monkeypatch, examples):
    some = examples(50)
    names = [example.question.split()[2] for example in some]
    made = calibrated(Oracle(monkeypatch, errs=names[45:]), some, bank_documents=25)
    assert made.held_out == 25
    assert (made.informed_memory, made.informed_model, made.uninformed_memory) == (80, 20, 20)
    # Right pairs: 20 of 25 above 20 of 25; ties where one of both errs.
    assert made.auc == pytest.approx(0.8 * 0.8 + 2 * 0.8 * 0.2 / 2)


@pytest.mark.parametrize(
    ("count", "options", "message", "hint"),
    [
        (0, {}, "0 documents do not fill the two banks of 64", "--bank-size"),
        (50, {"bank_documents": 26}, "50 documents do not fill the two banks of 26", "--bank-size"),
        (39, {"bank_documents": 1}, "39 questions are too few", "--data"),
        (39, {"bank_documents": 1, "questions": 39}, "39 questions are too few", "--data"),
        (50, {"bank_documents": 1, "questions": 20}, "20 questions are too few", "--questions"),
    ],
)
def test_too_little_data_is_refused_before_the_work(monkeypatch, examples, count, options, message, hint):
    model = Oracle(monkeypatch)
    with pytest.raises(DataError, match=message) as caught:
        next(calibrate(model, examples(count), **options))
    assert hint in (caught.value.hint or "")
    assert not model.banks
    with pytest.raises(DataError, match=message):
        deal(examples(count), **options)
    assert len(deal(examples(50), bank_documents=1)[1]) == 50


@pytest.mark.parametrize(
    ("informed", "uninformed", "expected"),
    [([2, 3], [0, 1], 1), ([0], [1], 0), ([1, 1], [1], 0.5), ([1, 3], [0, 1, 2, 4], (1.5 + 3) / 8)],
)
def test_separation_counts_pairs(informed, uninformed, expected):
    assert roc_auc(np.array(informed, float), np.array(uninformed, float)) == pytest.approx(expected)


@pytest.fixture
def folder(tiny, tmp_path):
    save_model(tiny.model(), tiny.config(), tmp_path / "model")
    return tmp_path / "model"


def test_calibration_keeps_fingerprints(folder, remember, tmp_path):
    model = load_model(folder)
    note = tmp_path / "ada.txt"
    note.write_text("Ada moved to Aalen in the spring.")
    assert remember(model, note).ask(["Who moved?"])[0].confidence is None
    store(SimpleNamespace(**ALWAYS_UNSURE.model_dump()), folder)
    again = load_model(folder)
    assert again.settings.confidence == ALWAYS_UNSURE
    assert again.fingerprints() == model.fingerprints()
    assert remember(again, note).ask(["Who moved?"])[0].confidence is None
    store(SimpleNamespace(**SETTINGS.model_dump()), folder)
    reply = remember(load_model(folder), note).ask(["Who moved?"])[0]
    assert reply.confidence == Confidence(*judge(SETTINGS, reply.gain))


def test_nan_gains_are_refused(tiny, examples):
    model = tiny.model()
    model.prefix.requires_grad_(False)
    for parameter in model.prefix.parameters():
        parameter.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN or infinite likelihoods"):
        calibrated(model, examples(40), bank_documents=20)


def test_storing_changes_only_the_confidence(folder):
    path = folder / "config.toml"
    path.write_text(f"# Mine.\n{path.read_text()}")
    before = tomllib.loads(path.read_text())
    for settings in (SETTINGS.model_copy(update={"slope": 2.5}), SETTINGS):
        store(SimpleNamespace(**settings.model_dump()), folder)
        table = tomllib.loads(path.read_text())
        assert ConfidenceSettings(**table["model"].pop("confidence")) == settings
        assert table == before
        assert path.read_text().startswith("# Mine.\n")
    assert sorted(entry.name for entry in folder.iterdir()) == ["adapter", "config.toml", "model.safetensors"]


def test_unwritable_folder_is_reported(folder, monkeypatch):
    require_writable(folder)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ModelError, match=r"config of the model in .* cannot be written: permission denied") as caught:
        require_writable(folder)
    assert "Copy the folder" in (caught.value.hint or "")

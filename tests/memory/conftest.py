"""Fixtures for tests of `Memory`: models of both kinds, and files of numbered stories."""

import json

import pytest


@pytest.fixture(params=["mini", "paper"])
def either(request, tiny):
    """A tiny model of each kind."""
    return tiny.retriever_reader("Nobody") if request.param == "mini" else tiny.model()


@pytest.fixture
def rows(tmp_path):
    """Writes texts as the rows of one file, with their numbers as ids."""

    def write(texts):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
        return path

    return write

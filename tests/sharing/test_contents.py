"""What travels with a model, and names that stay below the folder they are looked up in."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mbc_engine.errors import ConfigError
from mbc_engine.paper.checkpoint import save_model
from mbc_engine.sharing.inspection import MODEL_FILES, is_hub_id, require_repository


@given(st.text(alphabet="aZ0./\\-_~: \n\0", max_size=12))
@example("..")
@example("a/..")
@example("a/.b")
@example("a\n")
def test_a_hub_id_stays_below_the_folder_it_is_looked_up_in(text):
    if is_hub_id(text):
        folder = Path("/models")
        place = (folder / text).resolve()
        assert place.relative_to(folder).parts == tuple(text.split("/"))
        assert not any(part.startswith(".") for part in text.split("/"))


@pytest.mark.parametrize("text", ["gpt2", "openai-community/gpt2-large", "meta-llama/Llama-3.2-1B", "a/b_c.d"])
def test_names_of_the_hub_are_hub_ids(text):
    assert is_hub_id(text)


@pytest.mark.parametrize("text", ["", "/etc", "a/b/c", "a//b", "../x", "a--b/c", "C:\\x", "a/b.", "é/b", "a" * 97])
def test_anything_else_is_none(text):
    assert not is_hub_id(text)


@pytest.mark.parametrize("text", ["ada", "../x", "a/b/c", "", "/", "ada/"])
def test_a_repository_has_an_owner_and_a_name(text):
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        require_repository(text)


def test_what_travels_is_what_a_model_is_saved_as(tiny, tmp_path):
    save_model(tiny.model(), tiny.config(), tmp_path / "model")
    saved = {
        path.relative_to(tmp_path / "model").as_posix() for path in (tmp_path / "model").rglob("*") if path.is_file()
    }
    assert saved == set(MODEL_FILES)

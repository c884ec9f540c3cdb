"""What the names of reads mean, and errors in them."""

import pytest

from mbc_engine.errors import ConfigError
from mbc_engine.names import LEAST_NUMBERS, READ_MODES, ReadMode, parse_read_mode


@pytest.mark.parametrize("name", READ_MODES)
def test_a_name_alone_leaves_the_number_to_the_model(name: str) -> None:
    assert parse_read_mode(name) == ReadMode(name, None)


@pytest.mark.parametrize("name", READ_MODES)
def test_a_number_is_taken_from_the_least_on(name: str) -> None:
    least = LEAST_NUMBERS.get(name)
    if least is None:
        with pytest.raises(ConfigError, match="takes no number") as refused:
            parse_read_mode(f"{name}:1")
        assert refused.value.hint
        return
    assert parse_read_mode(f"{name}:{least}") == ReadMode(name, least)
    with pytest.raises(ConfigError, match=f"at least {least}") as refused:
        parse_read_mode(f"{name}:{least - 1}")
    assert refused.value.hint


UNKNOWN = ("", ":", "best", "Flat", "flat ", "flat:")
WRONG_NUMBERS = ("", "x", "-1", "²", "02", "1.5", "2:3", 5000 * "9")


@pytest.mark.parametrize("text", [*UNKNOWN, *(f"routed:{number}" for number in WRONG_NUMBERS)])
def test_an_unknown_read_lists_the_known_ones(text: str) -> None:
    with pytest.raises(ConfigError, match="no read") as refused:
        parse_read_mode(text)
    assert refused.value.hint == "Read modes: flat, hierarchical, routed; a number may follow, as in routed:2."

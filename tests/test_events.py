"""Events in memory."""

import dataclasses

import pytest

from mbc_engine.events import QuantisationStarted


def test_events_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        QuantisationStarted(3, 7).step = 4  # type: ignore[misc]


def test_an_event_as_json_has_its_name() -> None:
    assert QuantisationStarted(3, 7).to_json() == {"event": "QuantisationStarted", "step": 3, "vectors": 7}

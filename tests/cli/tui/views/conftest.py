"""A dashboard with the view that a test module is about, and no other."""

import pytest

from mbc_cli.tui.app import VIEWS


@pytest.fixture(autouse=True)
def _alone(request, monkeypatch):
    """The other views, which have tests of their own, need not be drawn."""
    own = tuple(
        view for view in VIEWS if f"test_{view.NAME}" in request.path.name or request.path.parent.name == view.NAME
    )
    monkeypatch.setattr("mbc_cli.tui.app.VIEWS", own)

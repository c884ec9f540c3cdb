"""A dashboard with the view that a test module is about, and Ask, whose model Documents searches with."""

import pytest

from mbc_cli.tui.app import VIEWS, Dashboard
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.documents import DocumentsView


@pytest.fixture(autouse=True)
def view(request, monkeypatch):
    """The view's name."""
    (view,) = (view for view in VIEWS if f"test_{view.NAME}" in request.path.name)
    monkeypatch.setattr("mbc_cli.tui.app.VIEWS", (view, AskView) if view is DocumentsView else (view,))
    return view.NAME


@pytest.fixture
def app(options, view):
    return Dashboard(options, view)

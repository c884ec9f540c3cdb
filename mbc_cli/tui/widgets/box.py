"""A box with a name in its border, around what belongs together."""

from textual.containers import Vertical


class Box(Vertical):
    """A panel of several widgets, as high as these unless its view says otherwise.

    Args:
        title: what is in it.
    """

    DEFAULT_CSS = """
    Box { height: auto; }
    """

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="panel")
        self.border_title = title

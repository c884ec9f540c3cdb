"""The passage of a source, with the sentence that the answer was read in."""

import re

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mbc_cli.text import plain
from mbc_cli.tui.widgets.turn import Cited


class Passage(VerticalScroll, can_focus=True):
    """What a source says."""

    DEFAULT_CSS = """
    Passage { scrollbar-size-vertical: 1; }
    """

    def compose(self) -> ComposeResult:
        yield Static()

    def show(self, cited: Cited) -> None:
        """Show the passage of this source instead of the one before."""
        self.border_title = Content(plain(cited.name))
        told = Text().append(f"{cited.share_text}  {plain(cited.about)}".rstrip(), "dim")
        if cited.folder:
            told.append(f"\n{plain(cited.folder)}", "dim")
        told.append(f"\n! {plain(cited.text_from)}" if cited.state else f"\n{plain(cited.text_from)}", "italic")
        told.append("\n\n")
        passage = passage_text(cited)
        self.query_one(Static).update(told + passage)
        self.scroll_home(animate=False)
        if passage.spans:
            before = told + passage[: passage.spans[-1].start]
            self.call_after_refresh(self._bring_into_sight, before, told + passage[: passage.spans[-1].end])

    def _bring_into_sight(self, before: Text, whole: Text) -> None:
        """Scroll to a sentence that ends below: what stands before it, and that with the sentence."""
        width, height = self.scrollable_content_region.size
        first, last = (len(text.wrap(self.app.console, max(1, width))) for text in (before, whole))
        if last > height:
            self.scroll_to(y=first - 1, animate=False)


def passage_text(cited: Cited) -> Text:
    """The passage of a source, made harmless line by line, its sentence underlined."""
    if not cited.passage:
        return Text("The text is no longer available.", "dim")
    passage, words = cited.passage, (cited.sentence or "").split()
    # The sentence was put on one line.
    found = re.search(r"\s+".join(map(re.escape, words)), passage) if words else None
    first, last = found.span() if found else (len(passage), len(passage))
    return Text.assemble(
        _harmless(passage[:first]), (_harmless(passage[first:last]), "bold underline"), _harmless(passage[last:])
    )


def _harmless(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))

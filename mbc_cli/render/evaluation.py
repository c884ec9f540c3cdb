"""An evaluation on the terminal."""

from dataclasses import asdict
from functools import singledispatchmethod
from typing import Any

from mbc_cli.render.consoles import print_facts
from mbc_cli.render.progress import ProgressView
from mbc_engine.events import Evaluated, Event, QuestionsAnswered


class EvaluationView(ProgressView):
    """Follows an evaluation by its events."""

    figures: dict[str, Any]

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: QuestionsAnswered) -> None:
        self.bar("Answering", event.total, completed=event.done)

    @show.register
    def _(self, event: Evaluated) -> None:
        self.figures = asdict(event)

    def show_figures(self) -> None:
        """The figures on stdout, in percent."""
        figures = self.figures
        banks = "one bank" if figures["banks"] == 1 else f"each of {figures['banks']:,} banks"
        print_facts(
            [
                ("questions", f"{figures['questions']:,}"),
                ("documents", f"{figures['bank_documents']:,} in {banks}"),
                ("exact match", f"{figures['exact_match']:.1f} %"),
                ("F1", f"{figures['f1']:.1f} %"),
                ("lenient match", f"{figures['lenient_match']:.1f} % (the released code's, for comparison)"),
                ("source first", f"{figures['first_source']:.1f} %"),
                ("source in five", f"{figures['in_five']:.1f} %"),
            ]
        )

"""A calibration on the terminal."""

from dataclasses import asdict
from functools import singledispatchmethod
from pathlib import Path
from typing import Any

from mbc_cli.render.consoles import print_facts
from mbc_cli.render.progress import ProgressView
from mbc_cli.text import near
from mbc_engine.events import Calibrated, Event, QuestionsAnswered


class CalibrationView(ProgressView):
    """Follows a calibration by its events."""

    result: Calibrated

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: QuestionsAnswered) -> None:
        self.bar("Asking", event.total, completed=event.done)

    @show.register
    def _(self, event: Calibrated) -> None:
        self.result = event

    @property
    def figures(self) -> dict[str, Any]:
        """The result for JSON, rates in percent."""
        return asdict(self.result)

    def show_figures(self, folder: Path | None) -> None:
        """The rates on stdout.

        Args:
            folder: of the model that keeps the result; None if none does.
        """
        result = self.result
        if not result.slope:
            self.line(
                "The memory does not make right answers more likely, so answers will carry no confidence.", "yellow"
            )
        print_facts(
            [
                (
                    "with its document",
                    _rates(result.informed_memory, result.informed_unsure, result.informed_model),
                ),
                (
                    "without",
                    _rates(result.uninformed_memory, result.uninformed_unsure, result.uninformed_model),
                ),
                (
                    "told apart",
                    (
                        f"{result.auc:.3f} of all pairs (AUC; 0.5 is chance), {result.held_out:,} held-out questions, "
                        f"{result.bank_documents:,} documents in the bank"
                    ),
                ),
                ("kept in", near(folder / "config.toml") if folder else "nothing (--dry-run)"),
            ]
        )


def _rates(memory: float, unsure: float, model: float) -> str:
    return f"{memory:.1f} % from memory, {unsure:.1f} % unsure, {model:.1f} % from the model alone"

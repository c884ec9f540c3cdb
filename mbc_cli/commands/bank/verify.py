"""`mbc bank verify`: is a bank intact?

A bank being verified, on the terminal or as JSON.
"""

from dataclasses import asdict
from functools import singledispatchmethod
from typing import Any

from rich.text import Text

from mbc_cli.options import BankOption, JsonOption
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import out
from mbc_cli.text import counted, plain
from mbc_engine.errors import BankError
from mbc_engine.events import BankVerified, DamageFound, Event, Progressed


def verify(*, bank: BankOption, json: JsonOption = False) -> None:
    """Check a bank for corruption. The exit code is 5 if there is any.

    \b
    Examples:
      mbc bank verify
      mbc bank verify --bank work.mbc --json
    """
    from mbc_cli.render.terminal import print_json
    from mbc_engine.bank import verify as check

    with VerifyView(str(bank), as_json=json) as view:
        for event in check(bank):
            view.show(event)
    if json:
        print_json(view.verdict_json())
    else:
        view.show_verdict()
    view.require_whole()


class VerifyView(ProgressView):
    """Follows a verification by its events.

    Args:
        name: the bank's.
        as_json: what is found is wanted as JSON in the end, not told at once.
    """

    def __init__(self, name: str, *, as_json: bool) -> None:
        super().__init__()
        self._name, self._as_json = name, as_json
        self._findings: list[DamageFound] = []
        self._verified: BankVerified | None = None

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: DamageFound) -> None:
        if self._as_json:
            self._findings.append(event)
        else:
            out.print(Text(plain(f"{event.where}: {event.what}"), "red"))

    @show.register
    def _(self, event: Progressed) -> None:
        self.bar("Verifying blocks", event.total, completed=event.done)

    @show.register
    def _(self, event: BankVerified) -> None:
        self._verified = event

    def show_verdict(self) -> None:
        """That all is well, if it is."""
        if not self._done.damages:
            holds = f"{counted(self._done.documents, 'document')}, {counted(self._done.chunks, 'chunk')}"
            out.print(plain(f"{self._name} is intact: {holds}."))

    def verdict_json(self) -> dict[str, Any]:
        """What was found, as JSON."""
        done = self._done
        return {
            "path": self._name,
            "ok": not done.damages,
            "documents": done.documents,
            "chunks": done.chunks,
            "findings": [asdict(finding) for finding in self._findings],
        }

    def require_whole(self) -> None:
        """Raises BankError if something is damaged."""
        if damages := self._done.damages:
            raise BankError(
                f"{self._name} is damaged in {counted(damages, 'place')}.",
                hint="Restore it from a backup, or build it again from the documents with `mbc ingest`, in another file.",
            )

    @property
    def _done(self) -> BankVerified:
        assert self._verified is not None, "the verification's last event has not come"
        return self._verified

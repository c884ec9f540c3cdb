"""The options of `mbc serve` that no other command has."""

from pathlib import Path
from typing import Annotated

import typer

_ACCESS, _LIMITS = "Who may ask", "Limits"

DocumentsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        show_default="beside the first bank, as NAME.documents",
        help="Where the texts of documents are kept that clients send; a folder of its own.",
    ),
]
HostOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Where to listen. Any other than this machine's own demands a token.",
        rich_help_panel=_ACCESS,
    ),
]
PortOption = Annotated[
    int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free one.", rich_help_panel=_ACCESS)
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default="what MBC_TOKEN holds, if it is set",
        help="Answer those alone who know the token in this file.",
        rich_help_panel=_ACCESS,
    ),
]
TlsCertOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Serve over TLS, with this certificate and its chain.", rich_help_panel=_ACCESS),
]
TlsKeyOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", show_default="in the same file", help="The certificate's key.", rich_help_panel=_ACCESS
    ),
]
BatchOption = Annotated[
    int, typer.Option(min=1, help="Questions, or documents, taken together.", rich_help_panel=_LIMITS)
]
QueueOption = Annotated[int, typer.Option(min=1, help="Requests that may wait for the model.", rich_help_panel=_LIMITS)]
MaxBodyOption = Annotated[
    int, typer.Option(min=1, metavar="BYTES", show_default="1 MiB", help="Longest request.", rich_help_panel=_LIMITS)
]

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
        help="Where to keep the text of documents that clients add; a folder used for nothing else.",
    ),
]
HostOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="The address to listen on; one that other machines can reach requires a token.",
        rich_help_panel=_ACCESS,
    ),
]
PortOption = Annotated[
    int, typer.Option(min=0, max=65535, help="The port to listen on; 0 picks a free one.", rich_help_panel=_ACCESS)
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default="what MBC_TOKEN holds, if it is set",
        help="Only answer clients that send the token in this file.",
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
    int, typer.Option(min=1, help="Questions or documents processed as one batch.", rich_help_panel=_LIMITS)
]
QueueOption = Annotated[int, typer.Option(min=1, help="Most requests waiting for the model.", rich_help_panel=_LIMITS)]
MaxBodyOption = Annotated[
    int,
    typer.Option(min=1, metavar="BYTES", show_default="1 MiB", help="Largest request body.", rich_help_panel=_LIMITS),
]

"""`mbc models`: models that are here, what they are made of, and how they travel.

What the verbs of `mbc models` that share models have in common.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mbc_engine.sharing.hub import Hub


HubOption = Annotated[
    Path | None,
    typer.Option(
        "--hub",
        envvar="MBC_HUB",
        show_default="the hub itself",
        metavar="FOLDER",
        help="A folder to use as the hub; models in it are named OWNER/NAME.",
    ),
]
RepositoryArgument = Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The model's name on the hub.")]


def hub_of(folder: Path | None) -> "Hub":
    """The hub, or the folder that acts as one.

    Raises:
        ModelError: there is no such folder.
    """
    if folder is not None:
        from mbc_engine.sharing.hub import FolderHub

        return FolderHub(folder)
    import logging

    from huggingface_hub import HfApi

    from mbc_cli.render.terminal import verbosity
    from mbc_engine import __version__
    from mbc_engine.sharing.hub import OnlineHub

    if not verbosity().verbose:  # it tells of every try, in the middle of the bar
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    return OnlineHub(HfApi(library_name="mbc", library_version=__version__))

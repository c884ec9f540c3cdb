"""`mbc models pull`: a model that others share."""

from typing import Annotated

import typer

from mbc_cli.commands.models.options import HubOption, RepositoryArgument, hub_of
from mbc_cli.options import JsonOption


def pull(
    repository: RepositoryArgument,
    *,
    revision: Annotated[
        str | None,
        typer.Option("--revision", metavar="REVISION", show_default="the latest", help="A branch, a tag or a commit."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", show_default="OWNER/NAME", help="The name to save it under."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing model of that name.")] = False,
    hub: HubOption = None,
    json: JsonOption = False,
) -> None:
    """Download a shared model; every command then takes it as --model OWNER/NAME.

    Only weights and settings are downloaded, never code; they are checked before they
    are put into your data folder. Its base LM and encoders are downloaded when it is
    first used. Ctrl-C leaves all models unchanged.

    \b
    Examples:
      mbc models pull ada/notes-gpt2
      mbc models pull ada/notes-gpt2 --revision v2 --name notes-v2
      mbc models pull ada/notes-gpt2 --hub /mnt/shared/models
    """
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.sharing import SharingView, pulled_json, show_pulled
    from mbc_engine.model_folder import own_models
    from mbc_engine.sharing.pulling import pull as bring

    source = hub_of(hub)
    with (
        ending_with("All models are as they were; the same command goes on with the files that came whole."),
        SharingView("Pulling") as view,
    ):
        pulled = bring(source, repository, own_models(), name=name, revision=revision, replaces=force, show=view.show)
    if json:
        print_json(pulled_json(pulled, source.place))
    else:
        show_pulled(pulled, source.place)

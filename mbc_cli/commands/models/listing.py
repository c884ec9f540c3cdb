"""`mbc models list`: the models that are here."""

from mbc_cli.options import JsonOption, RunsOption


def list_models(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List the models you can use: this package's, those in your data folder, and those of training runs.

    Each line has the base LM that answers, or "reads text" for a model such as
    mini; the codes as tokens x levels x codes, and their bytes per chunk; the size on
    disk and the best validation. In a pipe it is tab-separated, with the folder in
    the last column. With --json, each model is one line of JSON.

    \b
    Examples:
      mbc models list
      mbc models list --json | jq -r .path
    """
    from mbc_cli.models import models_here
    from mbc_cli.render.models import list_json, show_list

    (list_json if json else show_list)(models_here(runs.absolute()))

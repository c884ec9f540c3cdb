"""`mbc models list`: the models that are here."""

from mbc_cli.options import JsonOption, RunsOption


def list_models(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List the available models: built-in, in your data folder, and from training runs.

    Shows each model's base LM, its codes (tokens x levels x codes), the bytes a chunk
    takes in a bank, its size on disk and its best validation. In a pipe the output is
    tab-separated, with the folder in the last column. With --json each model is one
    line of JSON.

    \b
    Examples:
      mbc models list
      mbc models list --json | jq -r .path
    """
    from mbc_cli.models import models_here
    from mbc_cli.render.models import list_json, show_list

    (list_json if json else show_list)(models_here(runs.absolute()))

"""`mbc models show`: what a model or a preset is made of."""

from typing import Annotated

import typer

from mbc_cli.completion import models_and_presets
from mbc_cli.options import JsonOption, RunsOption


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PRESET|FOLDER",
            help="A model's name or folder, a training run, a preset, or a preset's file.",
            autocompletion=models_and_presets,
        ),
    ],
    *,
    runs: RunsOption,
    json: JsonOption = False,
) -> None:
    """Show what a model is made of; of the paper's method, with its trainable and frozen parameters, part by part.

    A preset is shown without any download: its parameters are counted on a model
    without weights. If a model and a preset share a name, the model is shown.

    \b
    Examples:
      mbc models show mini
      mbc models show llama2-7b
      mbc models show distilgpt2 --json | jq .parameters.trainable
    """
    from mbc_cli.engine import loading
    from mbc_cli.models import config_of, counted, find, find_preset, nothing_of
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.models import model_json, preset_json, show_model, show_preset
    from mbc_engine.config import Config, preset_names

    model = find(name, runs)
    config = config_of(model) if model else find_preset(name)
    if config is None:
        raise nothing_of(name, runs)
    parameters = None
    if isinstance(config, Config):
        with loading("torch"):
            parameters = counted(config.model)
    if model:
        is_preset_too = model.name in preset_names()
        if json:
            print_json(model_json(model, config, parameters, is_preset_too=is_preset_too))
        else:
            show_model(model, config, parameters, is_preset_too=is_preset_too)
        return
    assert isinstance(config, Config)
    if json:
        print_json(preset_json(name, config, parameters))
    else:
        show_preset(name, config, parameters)

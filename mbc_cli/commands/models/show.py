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
    """Show a model's parts: trainable and frozen parameters, and the size of the weights.

    A preset is shown without any download. Where a model and a preset have the same
    name, the model is shown.

    \b
    Examples:
      mbc models show mini
      mbc models show llama2-7b
      mbc models show distilgpt2 --json | jq .parameters.trainable
    """
    from mbc_cli.engine import loading
    from mbc_cli.models import counted, find, find_preset, nothing_of, settings_of
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.models import model_json, preset_json, show_model, show_preset
    from mbc_engine.config import preset_names

    model = find(name, runs)
    config = settings_of(model) if model else find_preset(name)
    if config is None:
        raise nothing_of(name, runs)
    with loading("torch"):
        parameters = counted(config.model)
    if model:
        is_preset_too = model.name in preset_names()
        if json:
            print_json(model_json(model, config, parameters, is_preset_too=is_preset_too))
        else:
            show_model(model, config, parameters, is_preset_too=is_preset_too)
    elif json:
        print_json(preset_json(name, config, parameters))
    else:
        show_preset(name, config, parameters)

"""`mbc models`: list the models, show one of them or a preset, and share models through the hub."""

import logging
import os
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from mbc_cli import local_models
from mbc_cli.command_line import interrupt_message
from mbc_cli.formatting import display_path, format_size, pluralise, sanitise
from mbc_cli.loading import loading
from mbc_cli.local_models import LocalModel, components, shape_of
from mbc_cli.options import JsonOption, RunsOption, argument, complete_models, complete_models_and_presets, option
from mbc_cli.render.bank import code_layout, codebooks
from mbc_cli.render.terminal import is_on, notes, out, print_facts, print_json, print_json_lines, print_table
from mbc_engine.errors import ModelError
from mbc_engine.names import own_models, preset_names
from mbc_engine.runs.training_runs import is_running

if TYPE_CHECKING:
    from mbc_engine.config import Config, ModelSettings, RetrieverReaderConfig, RetrieverReaderSettings

_RepositoryArgument = Annotated[str, argument("OWNER/NAME", "The model's name on the hub.")]
_MODEL = "Name or folder of a model or training run."
_NAME = "Name or folder of a model or training run; a preset, or a preset's file."
_LICENCE = "The licence in the model card, such as apache-2.0."
_CARDS = {"written": "written by mbc", "beside": "the model's own README.md", "kept": "unchanged on the hub"}
_COLUMNS = ("model", "base LM", "codes", "per chunk", "on disk", "EM %", "F1 %", "where")
_RIGHT = ("per chunk", "on disk", "EM %", "F1 %")
_PARAMETERS = ("trainable", "frozen", "weights")
_REVISION = "A branch, a tag or a commit."


def list_models(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List the models you can use: this package's, those in your data folder, and those of training runs.

    Each line shows the base LM that answers, or "reads text" for a model such as mini; the codes as tokens x levels x
    codes, and their bytes per chunk; the size on disk and the best validation. In a pipe it is tab-separated, with the
    folder in the last column. With --json, each model is one line of JSON.

    Examples:
      mbc models list
      mbc models list --json | jq -r .path
    """
    models = (local_models.read_model(*model) for model in local_models.model_folders(runs.absolute()))
    if json:
        print_json_lines(model.to_json() for model in models)
    else:
        print_table(_COLUMNS, list(map(_row, models)), right=_RIGHT)


def show(
    name: Annotated[str, argument("NAME|PRESET|FOLDER", _NAME, complete_models_and_presets)],
    *,
    runs: RunsOption,
    json: JsonOption = False,
) -> None:
    """Show what a model or preset is made of; for trained models, also the trainable and frozen parameters.

    Showing a preset downloads nothing. If a model and a preset share a name, the model is shown.

    Examples:
      mbc models show mini
      mbc models show llama2-7b
      mbc models show distilgpt2 --json | jq .parameters.trainable
    """
    from mbc_engine.config import load_preset

    model = local_models.find_local_model(name, runs)
    if model is None and name not in preset_names() and not os.path.isfile(name):
        raise local_models.model_not_found(name, runs)
    config = model.config if model else load_preset(name)
    if config is None:
        assert model is not None
        raise ModelError(model.problem or "", hint="Download or copy the model again.")
    table, problem = None, None
    if not config.reads_text:
        with loading("torch"):
            from mbc_engine.paper.builder import parameter_table

            try:
                table = parameter_table(config.settings)
            except ModelError as error:
                problem = error
    if json:
        what = model.to_json() if model else {"preset": name, **components(config.settings)}
        parts = [{"part": part} | asdict(counts) for part, counts in (table or {}).items() if part != "all"]
        counts = {**asdict(table["all"]), "parts": parts} if table else None
        kind = "model" if model else "preset"
        print_json({"kind": kind, **what, "settings": config.model_dump(), "parameters": counts})
        return
    print_facts(*_facts(name, model, config))
    if problem:
        notes.print(sanitise(f"Its parameters cannot be counted. {problem.message} {problem.hint}"))
    if table:
        rows = [(part, f"{n.trainable:,}", f"{n.frozen:,}", format_size(n.bytes)) for part, n in table.items()]
        out.print()
        print_table(("parameters", *_PARAMETERS), rows, right=_PARAMETERS)


def pull(
    repository: _RepositoryArgument,
    *,
    revision: Annotated[str | None, option(_REVISION, metavar="REVISION", show_default="the latest")] = None,
    name: Annotated[str | None, option("The name to save it under.", metavar="NAME", show_default="OWNER/NAME")] = None,
    force: Annotated[bool, option("Overwrite an existing model of that name.", "--force")] = False,
    json: JsonOption = False,
) -> None:
    """Download a shared model; every command then takes it as --model OWNER/NAME.

    Only weights and settings are downloaded, never code, and they are checked before they are saved to your data
    folder. Its base LM and encoders are downloaded when it is first used. Ctrl-C leaves all models unchanged.

    Examples:
      mbc models pull ada/notes-gpt2
      mbc models pull ada/notes-gpt2 --revision v2 --name notes-v2
    """
    from mbc_engine.sharing import pull as pull_model

    _set_up_client()
    with interrupt_message("No model was changed; run the same command again to continue."):
        pulled = pull_model(repository, own_models(), name=name, revision=revision, replaces=force)
    name, folder = name or repository, own_models() / (name or repository)
    parts = components(pulled.config.model)
    if json:
        source = {"model": name, "path": folder, "repository": repository, "revision": pulled.revision}
        print_json({**source, "size": pulled.size, **parts})
        return
    print_facts(
        ("model", name),
        ("folder", display_path(folder)),
        ("from", f"{repository} at {str(pulled.revision)[:12]}"),
        ("size", format_size(pulled.size)),
        ("base LM", parts["base"]),
        ("encoders", ", ".join(dict.fromkeys(parts["encoders"].values()))),
        ("per chunk", f"{parts['codes']['bits_per_chunk'] / 8:g} bytes"),
        ("ask", f"mbc ask --model {name}"),
    )
    notes.print("The base LM and the encoders are not included; they are loaded by name when the model is used.")


def push(
    model: Annotated[str, argument("MODEL", _MODEL, complete_models)],
    repository: _RepositoryArgument,
    *,
    private: Annotated[bool, option("Create a private repository.", "--private")] = False,
    licence: Annotated[str | None, option(_LICENCE, "--license", metavar="NAME", show_default="none")] = None,
    force: Annotated[bool, option("Overwrite the model on the hub.", "--force")] = False,
    runs: RunsOption,
    json: JsonOption = False,
) -> None:
    """Share a model on the hub: its settings, trained weights and a model card, in one commit.

    The card describes the model and, if it comes from a training run, its training and results; a README.md in the
    model's folder replaces it. Neither the base LM nor any document is shared. To share a model without the hub, copy
    its folder.

    Examples:
      mbc models push first ada/notes-gpt2 --license apache-2.0
    """
    from mbc_engine.sharing import push as push_model

    local = local_models.find_local_model(model, runs)
    if local is None:
        raise local_models.model_not_found(model, runs)
    run = local_models.run_of(local.folder)
    if run and is_running(run):
        raise ModelError(f"{model} is being trained.", hint="Share it when its training has ended.")
    _set_up_client()
    with interrupt_message("Nothing was shared."):
        pushed = push_model(
            local.folder,
            repository,
            licence=licence,
            history=local_models.read_run(run, has_curves=False).history if run else None,
            command=_training_command(run) if run else None,
            replaces=force,
            is_private=private,
        )
    if json:
        shared = {"model": local.name, "repository": repository, "revision": pushed.revision}
        print_json({**shared, "size": pushed.size, "card": pushed.card})
        return
    for name in sorted({pushed.config.model.base, *pushed.config.model.encoders.values()}):
        if Path(name).exists():
            notes.print(sanitise(f"{name} is also a folder here; others will get {name} from the hub."), style="yellow")
    print_facts(
        ("model", local.name),
        ("shared as", f"{repository} at {str(pushed.revision)[:12]}"),
        ("size", format_size(pushed.size)),
        ("card", _CARDS[pushed.card]),
        ("pull", f"mbc models pull {repository}"),
    )


def _training_command(run: Path) -> str | None:
    command = local_models.command_of(run)
    if command is None:
        return None
    words = ["mbc", "train", "--preset", "config.toml"]
    given = [
        *(("--data", spec) for spec in command.data),
        ("--validation", command.validation),
        ("--from", command.start),
    ]
    for name, spec in given:
        words += [name, re.sub(r"(^|:)/.*/", r"\1", spec, flags=re.DOTALL)] if spec else []
    return shlex.join(words)


def _set_up_client() -> None:
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if notes.quiet or not notes.is_terminal:
        disable_progress_bars()
    if not is_on("verbose"):
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def show_presets(*, as_json: bool) -> None:
    from mbc_engine.config import load_preset

    presets = {name: load_preset(name) for name in preset_names()}
    if as_json:
        print_json({name: config.model_dump() for name, config in presets.items()})
        return
    rows = []
    for name, config in presets.items():
        encoders = ", ".join(dict.fromkeys(map(_without_owner, config.model.encoders.values())))  # often one for both
        rows.append((name, _without_owner(config.model.base), encoders, *_codes(config.model)))
    print_table(("preset", "base LM", "encoders", "codes", "per chunk"), rows, right=("per chunk",))


def _codes(settings: "ModelSettings | RetrieverReaderSettings") -> tuple[str, str]:
    """Tokens x levels x codes, without a single level, and bytes of a chunk; the number of vectors without codes."""
    shape = shape_of(settings)
    if not settings.quantised:
        return "none", pluralise(shape.tokens, "vector")
    levels = [shape.levels] if shape.levels > 1 else []
    return " x ".join(map(str, (shape.tokens, *levels, shape.num_codes))), f"{shape.bits_per_chunk / 8:.4g} B"


def _row(model: LocalModel) -> tuple[str, ...]:
    config, best = model.config, model.best
    if config is None:
        parts: tuple[str, ...] = ("cannot be read" if out.is_terminal else model.problem or "", "", "")
    else:
        base = "reads text" if config.reads_text else _without_owner(config.settings.base or "")
        parts = (base, *_codes(config.settings))
    scores = (f"{best.exact_match:.1f}", best.f1_text) if best else ("", "")
    where = model.place if out.is_terminal else str(model.folder)
    return (model.name, *parts, format_size(model.size), *scores, where)


def _without_owner(name: str) -> str:
    """The name, without its owner on a terminal to save space."""
    return name.rstrip("/").rpartition("/")[2] if out.is_terminal else name


def _facts(name: str, model: LocalModel | None, config: "Config | RetrieverReaderConfig") -> list[tuple[str, str]]:
    settings, shape, (_, size) = config.settings, shape_of(config.settings), _codes(config.settings)
    if config.reads_text:
        size += " of codes, and its compressed text"
    elif settings.quantised:
        size += f": {code_layout(shape)}, {codebooks(shape)}"
    facts = [*settings.facts(), ("per chunk", size)]
    if model is None:
        training = cast("Config", config).training
        passes = f" in {training.accumulate} passes" if training.accumulate > 1 else ""
        steps = f"{pluralise(training.epochs, 'epoch')}, {pluralise(training.batch_size, 'question')} a step{passes}"
        precision = "bf16 where it is fast" if training.precision == "auto" else training.precision
        rate = f"learning rate {training.learning_rate:g}"
        train = f"mbc train --preset {shlex.quote(sanitise(name))} --data SPEC"
        return [("preset", name), *facts, ("training", f"{steps}, {rate}"), ("precision", precision), ("train", train)]
    if best := model.best:
        questions = pluralise(best.questions, "question")
        facts.append(("best", f"F1 {best.f1:.1f} %, exact match {best.exact_match:.1f} % ({questions})"))
    facts.append(("on disk", format_size(model.size)))
    if settings.quantised:  # else no bank can be made with it
        handle = model.name if model.place in ("package", "yours") else str(model.folder)  # from any working folder
        facts.append(("ask", f"mbc ask --model {shlex.quote(sanitise(handle))}"))
    return [("model", model.name), ("folder", str(model.folder)), *facts]

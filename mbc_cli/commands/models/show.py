"""`mbc models list`: the models that are here.

`mbc models show`: what a model or a preset is made of.

Models and presets: a line each, or one of them part by part.

The built-in presets on the terminal.
"""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from mbc_cli.completion import models_and_presets
from mbc_cli.models import Counted, ModelHere
from mbc_cli.options import JsonOption, RunsOption
from mbc_cli.render.bank import code_layout
from mbc_cli.render.terminal import notes, out, print_facts, print_json, print_json_lines, print_table
from mbc_cli.text import counted, plain, size
from mbc_engine.config import (
    Config,
    EncoderSettings,
    ModelSettings,
    RetrieverReaderConfig,
    RetrieverReaderSettings,
    TrainingSettings,
    load_preset,
    preset_names,
)
from mbc_engine.model_folder import EMBEDDED
from mbc_engine.sharing.inspection import code_shape


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

    (list_json if json else show_list)(models_here(runs.absolute()))


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
    from mbc_cli.render.terminal import print_json
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


_COLUMNS = ("model", "base LM", "codes", "a chunk", "on disk", "EM %", "F1 %", "where")
_RIGHT = ("a chunk", "on disk", "EM %", "F1 %")


def show_list(models: Sequence[ModelHere]) -> None:
    """What `mbc models list` prints."""
    print_table(_COLUMNS, [_row(model, is_short=out.is_terminal) for model in models], right=_RIGHT)


def list_json(models: Sequence[ModelHere]) -> None:
    """The same as lines of JSON."""
    print_json_lines(map(_summary, models))


def show_model(
    model: ModelHere, config: Config | RetrieverReaderConfig, parameters: Counted | None, *, is_preset_too: bool
) -> None:
    """What `mbc models show` prints of a model; with what is known of its parameters."""
    if is_preset_too:
        notes.print(plain(f"There is also a preset named {model.name}; this is the model."))
    best = model.best
    if isinstance(config, RetrieverReaderConfig):
        made = _reader_facts(config.retriever_reader)
    else:
        made = _settings_facts(config.model)
    print_facts(
        [
            ("model", model.name),
            ("folder", str(model.folder)),
            *made,
            *([("best", _validation(best.f1, best.exact_match, best.questions))] if best else []),
            ("on disk", size(model.size)),
            ("ask it", f"mbc ask --model {shlex.quote(plain(model.handle))}"),
        ]
    )
    _show_parameters(parameters)


def show_preset(name: str, config: Config, parameters: Counted | None) -> None:
    """The same of a preset."""
    trained = [
        ("training", _training(config.training)),
        ("train it", f"mbc train --preset {shlex.quote(plain(name))} --data SPEC"),
    ]
    print_facts([("preset", name), *_settings_facts(config.model), *trained])
    _show_parameters(parameters)


def model_json(
    model: ModelHere, config: Config | RetrieverReaderConfig, parameters: Counted | None, *, is_preset_too: bool
) -> dict[str, Any]:
    """A model as JSON; sizes in bytes."""
    return {
        "kind": "model",
        **_summary(model),
        "is_preset_too": is_preset_too,
        "settings": config.model_dump(),
        "parameters": _parameters(parameters),
    }


def preset_json(name: str, config: Config, parameters: Counted | None) -> dict[str, Any]:
    """A preset as JSON; sizes in bytes."""
    return {
        "kind": "preset",
        "preset": name,
        **made_of(config.model),
        "settings": config.model_dump(),
        "parameters": _parameters(parameters),
    }


def _row(model: ModelHere, *, is_short: bool) -> tuple[str, ...]:
    """A line of the list; short, it leaves out what only fits a wide terminal: owners of base LMs, and folders."""
    settings, best = model.settings, model.best
    if settings is None:
        made = ("cannot be read" if is_short else model.problem or "", "", "")
    elif isinstance(settings, RetrieverReaderSettings):
        made = ("reads text", layout(settings), chunk(settings))
    else:
        made = (short(settings.base) if is_short else settings.base, layout(settings), chunk(settings))
    return (
        model.name,
        *made,
        size(model.size),
        f"{best.exact_match:.1f}" if best else "",
        f"{best.f1:.1f}" if best else "",
        model.place if is_short else str(model.folder),
    )


def _summary(model: ModelHere) -> dict[str, Any]:
    return {
        "model": model.name,
        "path": str(model.folder),
        "place": model.place,
        **(made_of(model.settings) if model.settings else {"base": None, "encoders": None, "codes": None}),
        "reads_text": isinstance(model.settings, RetrieverReaderSettings),
        "problem": model.problem,
        "size": model.size,
        "best": asdict(model.best) if model.best else None,
    }


def made_of(settings: ModelSettings | RetrieverReaderSettings) -> dict[str, Any]:
    """Base LM, encoders and codes as JSON; null where there is no base LM, or no codes."""
    shape = code_shape(settings)
    if isinstance(settings, RetrieverReaderSettings):
        base, documents, questions = None, settings.encoder, settings.encoder
    else:
        base, documents, questions = settings.base, settings.documents.name, settings.questions.name
    return {
        "base": base,
        "encoders": {"documents": documents, "questions": questions},
        "codes": {**asdict(shape), "bits_per_chunk": shape.bits_per_chunk} if _has_codes(settings) else None,
    }


def short(name: str) -> str:
    """A hub model without its owner, or the folder that it lies in."""
    return "embedded" if name.startswith(EMBEDDED) else name.rstrip("/").rpartition("/")[2]


def layout(settings: ModelSettings | RetrieverReaderSettings) -> str:
    """The codes of a chunk, as tokens x levels x codes; no levels where there is but one; none of vectors."""
    if not _has_codes(settings):
        return "none"
    shape = code_shape(settings)
    return " x ".join(map(str, (shape.tokens, *([shape.levels] if shape.levels > 1 else []), shape.num_codes)))


def chunk(settings: ModelSettings | RetrieverReaderSettings) -> str:
    """Bytes of a chunk's codes, not always whole: chunks follow one another bit by bit; or how many vectors it is."""
    shape = code_shape(settings)
    if not _has_codes(settings):
        return counted(shape.tokens, "vector")
    return f"{shape.bits_per_chunk / 8:.4g} B"


def _has_codes(settings: ModelSettings | RetrieverReaderSettings) -> bool:
    return isinstance(settings, RetrieverReaderSettings) or settings.quantised


def _reader_facts(settings: RetrieverReaderSettings) -> list[tuple[str, str]]:
    """What a retriever-reader is made of."""
    shape = code_shape(settings)
    best = "the best passage" if settings.passages == 1 else f"the {settings.passages} best passages"
    return [
        ("finds", f"passages by {shape.tokens} codes of {shape.num_codes} and by shared words"),
        ("reads", f"answers in the text of {best}"),
        ("gives", f"answers from {settings.confidence.threshold:.0%} confidence on, see `mbc ask --min-confidence`"),
        ("encoder", f"{settings.encoder}, up to {counted(settings.window, 'token')}"),
        ("a chunk", f"{chunk(settings)} of codes, and its compressed text"),
    ]


def _settings_facts(settings: ModelSettings) -> list[tuple[str, str]]:
    lora = settings.lora
    codes = f": {_codes(settings)}" if settings.quantised else ""
    depth = f"rank {lora.rank} in the last {counted(lora.layers, 'layer')}" if lora.layers else "none"
    return [
        ("base LM", f"{settings.base}{_held(settings.base_weights)}"),
        ("documents", _encoder(settings.documents)),
        ("questions", _encoder(settings.questions)),
        ("a chunk", f"{chunk(settings)}{codes}"),
        ("reads", settings.read),
        ("KV-LoRA", depth),
        ("prefix", f"{counted(settings.prefix.columns, 'column')} a layer"),
    ]


def _codes(settings: ModelSettings) -> str:
    """What the codes of a chunk are, and from which codebooks."""
    shape = code_shape(settings)
    books = "a book for each token" if shape.per_position else "one book for all"
    return f"{code_layout(shape.tokens, shape.levels, shape.num_codes)}, {books}"


def _encoder(own: EncoderSettings) -> str:
    state = ", frozen" if own.frozen else ""
    return f"{own.name}{_held(own.weights)}{state}, up to {counted(own.window, 'token')}"


def _held(weights: str) -> str:
    """How weights are held, where that is not the usual way."""
    return "" if weights == "float32" else f" as {weights}"


def _training(settings: TrainingSettings) -> str:
    passes = f" in {settings.accumulate} passes" if settings.accumulate > 1 else ""
    return (
        f"{counted(settings.epochs, 'epoch')}, {counted(settings.batch_size, 'question')} a step{passes}, "
        f"learning rate {settings.learning_rate:g}, {settings.precision}"
    )


def _validation(f1: float, exact_match: float, questions: int) -> str:
    return f"F1 {f1:.1f} %, exact match {exact_match:.1f} % ({counted(questions, 'question')})"


def _show_parameters(parameters: Counted | None) -> None:
    """The parameters, part by part, in columns that stay columns in a pipe; or why they cannot be counted."""
    if parameters is None:
        return
    if parameters.problem:
        notes.print(plain(f"Its parameters cannot be counted. {parameters.problem.message} {parameters.problem.hint}"))
    if not (table := parameters.table):
        return
    rows = [(part.part, part.trainable, part.frozen, part.bytes) for part in table.parts]
    rows.append(("all", table.trainable, table.frozen, table.bytes))
    cells = [("parameters", "trainable", "frozen", "weights")]
    cells += [(part, f"{trainable:,}", f"{frozen:,}", size(taken)) for part, trainable, frozen, taken in rows]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    out.print()
    for part, *numbers in cells:
        aligned = (f"{number:>{width}}" for number, width in zip(numbers, others, strict=True))
        out.print(Text("  ".join([f"{part:<{first}}", *aligned]), "bold" if part in ("parameters", "all") else ""))


def _parameters(parameters: Counted | None) -> dict[str, Any] | None:
    if parameters is None or not (table := parameters.table):
        return None
    return {
        "trainable": table.trainable,
        "frozen": table.frozen,
        "bytes": table.bytes,
        "parts": [asdict(part) for part in table.parts],
    }


def show_presets(*, as_json: bool) -> None:
    """A line a preset; as JSON with every setting."""
    presets = {name: load_preset(name) for name in preset_names()}
    if as_json:
        print_json({name: config.model_dump() for name, config in presets.items()})
        return
    print_table(
        ("preset", "base LM", "encoders", "codes", "a chunk"),
        [(name, *_presets_row(config.model)) for name, config in presets.items()],
        right=("a chunk",),
    )


def _presets_row(model: ModelSettings) -> tuple[str, ...]:
    """What a model is made of; names without their owners on a terminal, where a line is short."""
    encoders = dict.fromkeys((model.documents.name, model.questions.name))  # often one for both
    base, *others = map(short, (model.base, *encoders)) if out.is_terminal else (model.base, *encoders)
    return base, ", ".join(others), layout(model), chunk(model)

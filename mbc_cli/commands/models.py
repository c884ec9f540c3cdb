"""`mbc models list` and `mbc models show`: the models and presets, and what one of them is made of."""

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from mbc_cli.completion import models_and_presets
from mbc_cli.models import ModelHere, Settings, find, find_preset, model_folders, not_found, read_model, settings_of
from mbc_cli.options import JsonOption, RunsOption
from mbc_cli.render.bank import code_layout
from mbc_cli.render.terminal import notes, out, print_facts, print_json, print_json_lines, print_table
from mbc_cli.text import counted, plain, size
from mbc_engine.config import (
    EMBEDDED,
    Config,
    EncoderSettings,
    ModelSettings,
    RetrieverReaderSettings,
    load_preset,
    preset_names,
)
from mbc_engine.errors import ModelError
from mbc_engine.sharing import code_shape

if TYPE_CHECKING:
    from mbc_engine.paper.builder import Parameters

_COLUMNS = ("model", "base LM", "codes", "per chunk", "on disk", "EM %", "F1 %", "where")
_RIGHT = ("per chunk", "on disk", "EM %", "F1 %")


def list_models(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List the models you can use: this package's, those in your data folder, and those of training runs.

    Each line shows the base LM that answers, or "reads text" for a model such as mini; the codes as tokens x levels x
    codes, and their bytes per chunk; the size on disk and the best validation. In a pipe it is tab-separated, with the
    folder in the last column. With --json, each model is one line of JSON.

    Examples:
      mbc models list
      mbc models list --json | jq -r .path
    """
    found = (read_model(*model) for model in model_folders(runs.absolute()))
    if json:
        print_json_lines(map(_summary, found))
    else:
        print_table(_COLUMNS, list(map(_row, found)), right=_RIGHT)


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
    """Show the parts of a model or preset; of the paper's method, with trainable and frozen parameters.

    Nothing is downloaded for a preset. If a model and a preset share a name, the model is shown.

    Examples:
      mbc models show mini
      mbc models show llama2-7b
      mbc models show distilgpt2 --json | jq .parameters.trainable
    """
    model = find(name, runs)
    config = model.config if model else find_preset(name)
    if config is None:
        raise (
            ModelError(model.problem or "", hint="Download or copy the model again.")
            if model
            else not_found(name, runs)
        )
    parameters, problem = _parameters(config.model) if isinstance(config, Config) else (None, None)
    if json:
        what = {"kind": "preset", "preset": name, **made_of(settings_of(config))}
        if model:
            what = {"kind": "model", **_summary(model), "is_preset_too": model.name in preset_names()}
        print_json({**what, "settings": config.model_dump(), "parameters": _parameters_json(parameters)})
        return
    if model and model.name in preset_names():
        notes.print(plain(f"There is also a preset named {model.name}; this is the model."))
    settings = settings_of(config)
    facts = _reader_facts(settings) if isinstance(settings, RetrieverReaderSettings) else _settings_facts(settings)
    if model:
        best = model.best
        facts = [("model", model.name), ("folder", str(model.folder)), *facts]
        if best:
            line = f"F1 {best.f1:.1f} %, exact match {best.exact_match:.1f} % ({counted(best.questions, 'question')})"
            facts.append(("best", line))
        facts += [("on disk", size(model.size)), ("ask", f"mbc ask --model {shlex.quote(plain(model.handle))}")]
    elif isinstance(config, Config):
        train = f"mbc train --preset {shlex.quote(plain(name))} --data SPEC"
        facts = [("preset", name), *facts, ("training", _training(config)), ("train", train)]
    print_facts(facts)
    if problem:
        notes.print(plain(f"Its parameters cannot be counted. {problem.message} {problem.hint}"))
    if parameters:
        _show_parameters(parameters)


def show_presets(*, as_json: bool) -> None:
    presets = {name: load_preset(name) for name in preset_names()}
    if as_json:
        print_json({name: config.model_dump() for name, config in presets.items()})
        return
    rows = []
    for name, config in presets.items():
        model = config.model
        encoders = dict.fromkeys((model.documents.name, model.questions.name))  # often one for both
        base, *others = map(_short, (model.base, *encoders))
        rows.append((name, base, ", ".join(others), layout(model), chunk(model)))
    print_table(("preset", "base LM", "encoders", "codes", "per chunk"), rows, right=("per chunk",))


def made_of(settings: Settings) -> dict[str, Any]:
    """Base LM, encoders and codes as JSON; null if there is none."""
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


def layout(settings: Settings) -> str:
    """Tokens x levels x codes; a single level is left out."""
    if not _has_codes(settings):
        return "none"
    shape = code_shape(settings)
    return " x ".join(map(str, (shape.tokens, *([shape.levels] if shape.levels > 1 else []), shape.num_codes)))


def chunk(settings: Settings) -> str:
    """Bytes of a chunk's codes, or the number of its vectors."""
    shape = code_shape(settings)
    return f"{shape.bits_per_chunk / 8:.4g} B" if _has_codes(settings) else counted(shape.tokens, "vector")


def _has_codes(settings: Settings) -> bool:
    return isinstance(settings, RetrieverReaderSettings) or settings.quantised


def _row(model: ModelHere) -> tuple[str, ...]:
    settings, best = model.settings, model.best
    if settings is None:
        made = ("cannot be read" if out.is_terminal else model.problem or "", "", "")
    else:
        base = "reads text" if isinstance(settings, RetrieverReaderSettings) else _short(settings.base)
        made = (base, layout(settings), chunk(settings))
    validation = (f"{best.exact_match:.1f}", f"{best.f1:.1f}") if best else ("", "")
    return (model.name, *made, size(model.size), *validation, model.place if out.is_terminal else str(model.folder))


def _short(name: str) -> str:
    """Without its owner on a terminal, to save space."""
    if not out.is_terminal:
        return name
    return "embedded" if name.startswith(EMBEDDED) else name.rstrip("/").rpartition("/")[2]


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


def _reader_facts(settings: RetrieverReaderSettings) -> list[tuple[str, str]]:
    shape = code_shape(settings)
    best = "the best passage" if settings.passages == 1 else f"the {settings.passages} best passages"
    return [
        ("finds", f"passages by {shape.tokens} codes of {shape.num_codes} and by shared words"),
        ("reads", f"answers in the text of {best}"),
        ("gives", f"answers from {settings.confidence.threshold:.0%} confidence on, see `mbc ask --min-confidence`"),
        ("encoder", f"{settings.encoder}, up to {counted(settings.window, 'token')}"),
        ("per chunk", f"{chunk(settings)} of codes, and its compressed text"),
    ]


def _settings_facts(settings: ModelSettings) -> list[tuple[str, str]]:
    lora, shape = settings.lora, code_shape(settings)
    books = "one codebook for each token" if shape.per_position else "one codebook for all"
    codes = f": {code_layout(shape.tokens, shape.levels, shape.num_codes)}, {books}" if settings.quantised else ""
    depth = f"rank {lora.rank} in the last {counted(lora.layers, 'layer')}" if lora.layers else "none"
    return [
        ("base LM", f"{settings.base}{_precision(settings.base_weights)}"),
        ("documents", _encoder(settings.documents)),
        ("questions", _encoder(settings.questions)),
        ("per chunk", f"{chunk(settings)}{codes}"),
        ("reads", settings.read),
        ("KV-LoRA", depth),
        ("prefix", f"{counted(settings.prefix.columns, 'column')} a layer"),
    ]


def _encoder(own: EncoderSettings) -> str:
    state = ", frozen" if own.frozen else ""
    return f"{own.name}{_precision(own.weights)}{state}, up to {counted(own.window, 'token')}"


def _precision(weights: str) -> str:
    return "" if weights == "float32" else f" as {weights}"


def _training(config: Config) -> str:
    own = config.training
    passes = f" in {own.accumulate} passes" if own.accumulate > 1 else ""
    return (
        f"{counted(own.epochs, 'epoch')}, {counted(own.batch_size, 'question')} a step{passes}, "
        f"learning rate {own.learning_rate:g}, {own.precision}"
    )


def _parameters(settings: ModelSettings) -> "tuple[dict[str, Parameters] | None, ModelError | None]":
    """The parameters, or why they cannot be counted; this needs torch but no weights."""
    from mbc_cli.engine import loading

    with loading("torch"):
        from mbc_engine.paper.builder import parameter_table

        try:
            return parameter_table(settings), None
        except ModelError as error:
            return None, error


def _show_parameters(table: "dict[str, Parameters]") -> None:
    cells = [("parameters", "trainable", "frozen", "weights")]
    cells += [(part, f"{own.trainable:,}", f"{own.frozen:,}", size(own.bytes)) for part, own in table.items()]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    out.print()
    for part, *numbers in cells:
        aligned = (f"{number:>{width}}" for number, width in zip(numbers, others, strict=True))
        out.print(Text("  ".join([f"{part:<{first}}", *aligned]), "bold" if part in ("parameters", "all") else ""))


def _parameters_json(table: "dict[str, Parameters] | None") -> dict[str, Any] | None:
    if table is None:
        return None
    parts = [{"part": part} | asdict(own) for part, own in table.items() if part != "all"]
    return asdict(table["all"]) | {"parts": parts}

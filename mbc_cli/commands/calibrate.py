"""`mbc calibrate`: learn when a model of the paper's method answers from its memory."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

from mbc_cli.engine import load_model, loading, read_data, require_model
from mbc_cli.options import DeviceOption, JsonOption, ModelOption, option
from mbc_cli.program import interrupt_message
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import print_facts, print_json
from mbc_cli.text import display_path
from mbc_engine.errors import ConfigError
from mbc_engine.events import Calibrated, Progressed
from mbc_engine.names import CONFIG, find_model

if TYPE_CHECKING:
    from mbc_engine.paper.mbc import MBC

_DATA = "Questions the model was not trained on: a file, or squad:validation."
_QUESTIONS = "Maximum number of questions, evenly spaced."


def calibrate(
    *,
    model: ModelOption,
    data: Annotated[str, option(_DATA, metavar="SPEC")],
    bank_size: Annotated[int, option("Documents in each bank.", min=1)] = 64,
    questions: Annotated[int | None, option(_QUESTIONS, min=1, show_default="all")] = None,
    dry_run: Annotated[bool, option("Measure only; do not change the model.", "--dry-run")] = False,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Use held-out questions to set the threshold between memory and guesswork; changes the model's config.

    For trained models; mini is already calibrated. Each question is asked of a bank with its document and
    of one without; what the bank adds to the answer's likelihood is used to tell the two apart. The model's banks and
    codes stay valid. Ctrl-C changes nothing.

    Examples:
      mbc calibrate --model runs/mine --data questions.jsonl
      mbc calibrate --model runs/mine --data test.jsonl --bank-size 16 --dry-run
    """
    from mbc_engine.config import read_model_config

    require_model(model, device)
    folder = find_model(model)
    if read_model_config(folder / CONFIG).reads_text:
        hint = "Name one with --model. How mini was calibrated is in recipes/mini of the source code."
        raise ConfigError(f"The model {model} is already calibrated; `mbc calibrate` is for trained models.", hint=hint)
    examples = read_data([data])
    with loading(f"model {model}"):
        from mbc_engine.paper.calibration import calibrate as measure
        from mbc_engine.paper.calibration import deal, require_writable, store

    deal(examples, bank_size, questions)  # an error comes before the model is loaded
    if not dry_run:
        require_writable(folder)
    loaded = cast("MBC", load_model(model, device))
    with interrupt_message("The model was not changed; --questions asks fewer."), ProgressView() as view:
        for event in measure(loaded, examples, bank_documents=bank_size, questions=questions):
            if isinstance(event, Progressed):
                view.bar("Asking", event.total, completed=event.done)
    assert isinstance(event, Calibrated)
    if not dry_run:
        store(event, folder)
    if json:
        print_json({"model": model, "data": data, "folder": str(folder), "is_kept": not dry_run, **asdict(event)})
        return
    if not event.slope:
        view.line("The memory does not make right answers more likely, so answers will carry no confidence.", "yellow")
    elif event.auc < 0.5:
        view.line("On the held-out questions, the memory does not make right answers more likely.", "yellow")
    held_out = f"{event.held_out:,} held-out questions, {event.bank_documents:,} documents in the bank"
    print_facts(
        ("with its document", _rates(event.informed_memory, event.informed_unsure, event.informed_model)),
        ("without", _rates(event.uninformed_memory, event.uninformed_unsure, event.uninformed_model)),
        ("AUC", f"{event.auc:.3f} (0.5 is chance), {held_out}"),
        ("saved in", "nothing (--dry-run)" if dry_run else display_path(folder / CONFIG)),
    )


def _rates(memory: float, unsure: float, model: float) -> str:
    return f"{memory:.1f} % from memory, {unsure:.1f} % unsure, {model:.1f} % from the model alone"

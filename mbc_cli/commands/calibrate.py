"""`mbc calibrate`: learn when an answer of a model comes from its memory."""

from typing import Annotated

import typer

from mbc_cli.options import DeviceOption, JsonOption, ModelOption


def calibrate(
    *,
    model: ModelOption,
    data: Annotated[
        str,
        typer.Option(
            metavar="SPEC", help="Questions it was not trained on: a file, squad:validation, or newswire:test:200."
        ),
    ],
    bank_size: Annotated[int, typer.Option(min=1, help="Documents in each bank.")] = 64,
    questions: Annotated[
        int | None, typer.Option(min=1, show_default="all", help="Most questions to ask, evenly spaced.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only measure; do not change the model.")] = False,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Calibrate a model's confidence on held-out questions, and save the result in its config.

    Each question is asked of a bank with its document and of one without; what the
    bank adds to the answer's likelihood is used to tell the two apart. Existing banks
    stay valid. Ctrl-C leaves everything unchanged.

    \b
    Examples:
      mbc calibrate --model runs/mine --data questions.jsonl
      mbc calibrate --data newswire:test:200 --bank-size 16 --questions 400 --dry-run
    """
    from mbc_cli.data import read_data
    from mbc_cli.engine import load_model, loading, require_model
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.calibration import CalibrationView
    from mbc_cli.render.consoles import print_json

    require_model(model, device)
    examples = read_data([data])
    with loading(f"model {model}"):
        from mbc_engine.evaluation.calibrate import calibrate as measure
        from mbc_engine.evaluation.calibrate import require_enough, require_writable, settings_of, store
        from mbc_engine.model_folder import find_model

    require_enough(examples, bank_documents=bank_size, questions=questions)
    folder = find_model(model)
    if not dry_run:
        require_writable(folder)
    loaded = load_model(model, device)
    with ending_with("The model is as it was; --questions asks fewer."), CalibrationView() as view:
        for event in measure(loaded, examples, bank_documents=bank_size, questions=questions):
            view.show(event)
    if not dry_run:
        store(settings_of(view.result), folder)
    if json:
        print_json({"model": model, "data": data, "folder": str(folder), "is_kept": not dry_run, **view.figures})
    else:
        view.show_figures(None if dry_run else folder)

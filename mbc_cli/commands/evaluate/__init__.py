"""`mbc eval`: how well methods answer, on one data set, or on a grid of them."""

import typer

from mbc_cli.commands.evaluate.options import (
    BankSizeOption,
    DataFolderOption,
    DataOption,
    DocumentsOption,
    GoldsOption,
    HoursOption,
    LimitOption,
    MethodOption,
    PlanOption,
    PresetOption,
    ProtocolOption,
    ReportOption,
    RunOption,
    SetOption,
    SuiteOption,
    TrainOption,
    ValidationOption,
)
from mbc_cli.options import DeviceOption, JsonOption, ModelOption, ReadOption, ThreadsOption


def evaluate(
    ctx: typer.Context,
    *,
    data: DataOption = None,
    suite: SuiteOption = None,
    model: ModelOption,
    method: MethodOption = None,
    protocol: ProtocolOption = None,
    documents: DocumentsOption = 1665,
    bank_size: BankSizeOption = None,
    limit: LimitOption = None,
    golds: GoldsOption = "shortest",
    read: ReadOption = None,
    train: TrainOption = None,
    validation: ValidationOption = None,
    preset: PresetOption = None,
    settings: SetOption = None,
    run: RunOption = None,
    data_folder: DataFolderOption = None,
    plan: PlanOption = False,
    hours: HoursOption = 100.0,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    report: ReportOption = False,
    json: JsonOption = False,
) -> None:
    """Evaluate how well methods answer: exact match, F1, sources, seconds, bytes.

    A method takes in documents, then is asked about them. Without --[b]train[/b] a trained model is asked. One of the
    paper's method is asked with an empty bank, too, and with ones that are shuffled or hold other documents: a model
    that answers no better then makes no use of its memory. Everything is kept in one folder, with an HTML report, report.html.
    Ctrl-C stops the evaluation; --run continues it.

    \b
    Examples:
      mbc eval --data newswire:test:64
      mbc eval --model runs/mine --data questions.jsonl --bank-size 16 --json
      mbc eval --preset mini --[b]train[/b] "news.jsonl[:900]" --data "news.jsonl[900:]" --method mbc --method mac
      mbc eval --suite paper --plan
      mbc eval --suite small --data-folder data --run small
    """
    if ctx.invoked_subcommand is not None:
        return
    from mbc_cli.commands.evaluate.choice import choose
    from mbc_cli.commands.evaluate.one import Amounts, Learning, One
    from mbc_cli.commands.evaluate.work import Means, show_plan, work
    from mbc_cli.engine import require_device

    require_device(device)
    amounts = Amounts(documents=documents, bank_documents=bank_size, questions=limit)
    learning = Learning(train=train or [], validation=validation, preset=preset, changes=settings or [])
    one = One(model, method or [], protocol or [], golds, read, amounts, learning)
    chosen, means = choose(ctx, data, suite, one, data_folder, run), Means(device, threads, hours)
    if plan:
        show_plan(chosen.settings, means, as_json=json)
    else:
        work(chosen, means, opens=report, as_json=json)

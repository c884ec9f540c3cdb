"""`mbc train`: a model from questions about documents."""

import typer

from mbc_cli.commands.train.options import (
    BaseOption,
    CompileOption,
    DataOption,
    FromOption,
    ListPresetsOption,
    PresetOption,
    ResumeOption,
    RunOption,
    SetOption,
    TrackOption,
    ValidationOption,
)
from mbc_cli.options import DeviceOption, JsonOption, RunsOption, ThreadsOption


def train(
    ctx: typer.Context,
    *,
    preset: PresetOption = None,
    data: DataOption = None,
    validation: ValidationOption = None,
    run: RunOption = None,
    resume: ResumeOption = False,
    base: BaseOption = None,
    settings: SetOption = None,
    start: FromOption = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    compiles: CompileOption = False,
    track: TrackOption = None,
    runs: RunsOption,
    list_presets: ListPresetsOption = False,
    json: JsonOption = False,
) -> None:
    """Train a model. Ctrl-C stops after the current step; --resume continues from there.

    With --json each event is one line of JSON on stdout.

    \b
    Examples:
      mbc train --list-presets
      mbc train --preset mini --data newswire:[b]train[/b]:5000 --run first
      mbc train --resume --run first
      mbc train --preset distilgpt2 --data train.jsonl --set training.epochs=3
      mbc train --preset distilgpt2 --base Qwen/Qwen3-0.6B --data train.jsonl
    """
    if list_presets:
        from mbc_cli.render.presets import show_presets

        show_presets(as_json=json)
        return
    from mbc_cli.commands.train.job import changes_of, new_job, resumed_job
    from mbc_cli.commands.train.work import work
    from mbc_cli.program import is_typed
    from mbc_cli.runs import RunCommand

    if resume:
        kept = ("preset", "data", "validation", "base", "settings", "start", "compiles")
        is_changed = any(is_typed(ctx, name) for name in kept)
        job = resumed_job(run, runs, device if is_typed(ctx, "device") else None, track, is_changed=is_changed)
    else:
        typed = RunCommand(data or [], validation, start, device, track or [])
        job = new_job(run, runs, preset, changes_of(settings or [], base, compiles=compiles), typed)
    work(job, threads, as_json=json)

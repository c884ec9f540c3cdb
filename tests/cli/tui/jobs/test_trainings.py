"""What is asked of trainings."""

from mbc_cli.tui.jobs.processes import Trainings
from mbc_engine.runs.training_runs import Request, request_in


def test_what_is_asked_last_is_what_stands_in_the_folder(home, monkeypatch):
    run, asked = home / "one", []
    run.mkdir()
    monkeypatch.setattr("mbc_cli.tui.jobs.processes.start_thread", lambda name, work, post: asked.append(work))
    trainings = Trainings(home, print)
    for request in (Request.STOP, Request.PAUSE, None, Request.PAUSE):
        trainings.ask(run, request)
    for work in reversed(asked):  # threads come in any order
        work()
    assert request_in(run) is Request.PAUSE

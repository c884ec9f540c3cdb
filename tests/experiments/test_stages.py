from mbc_engine.evaluation.folder import CellFolder
from mbc_engine.experiments.cells import cells
from mbc_engine.experiments.reporting import stages


def names(settings):
    return [stage.name for cell in cells(settings) for stage in stages(cell, settings)]


def test_what_methods_need_comes_first_and_once(settings):
    told = names(settings(methods=["uniform", "mbc", "mbc-empty", "closed-book"]))
    assert told == [
        "prepare questions",
        "prepare mbc",
        "uniform rate",
        "uniform online",
        "mbc online",
        "mbc-empty online",
        "closed-book online",
    ]


def test_token_weights_are_learned_on_the_base_that_they_will_serve(settings):
    (cell,) = cells(settings(methods=["camels"]))
    learned = next(stage for stage in stages(cell, settings(methods=["camels"])) if stage.subject == "camels")
    assert learned.name == "prepare camels"
    assert learned.needs == ("prepare questions",)


def test_only_what_changes_with_the_stream_is_followed_through_it(settings):
    told = names(
        settings(methods=["mbc", "mbc-wrong", "oracle", "closed-book"], protocols=["online", "retention", "scaling"])
    )
    assert [name for name in told if "retention" in name or "scaling" in name] == ["mbc retention", "mbc scaling"]


def test_a_trained_model_is_not_trained_again(settings):
    given = settings(bases=[{"name": "own", "title": "Own", "model": "somewhere"}])
    assert names(given) == ["mbc online", "mbc-empty online"]


def test_without_questions_to_train_on_the_plain_base_is_asked(settings):
    dataset = {"name": "people", "title": "People", "test": "test.jsonl"}
    assert names(settings(methods=["closed-book", "bm25"], datasets=[dataset])) == ["closed-book online", "bm25 online"]


def test_code_usage_takes_two_trainings(settings):
    given = settings(methods=["mbc"], protocols=["code-usage"])
    assert names(given) == ["prepare mbc", "prepare reset", "prepare no-reset", "code-usage"]


def test_a_stage_is_done_when_its_result_is_kept(settings, tmp_path):
    given, folder = settings(), CellFolder(tmp_path / "cell")
    (cell,) = cells(given)
    prepare, *asked = stages(cell, given)
    assert not any(stage.is_done(folder) for stage in (prepare, *asked))
    folder.prepared_folder.joinpath("mbc").mkdir(parents=True)
    folder.keep_prepared("mbc")
    assert prepare.is_done(folder)
    assert not any(stage.is_done(folder) for stage in asked)

import json

import mbc_engine.serving.ingest as engine


def test_counts_and_sizes_are_told(mbc, model, notes):
    (notes / "photo.png").write_bytes(b"\x89PNG")
    result = mbc("ingest", notes, "--bank", "b.mbc", "--model", model)
    assert result.exit_code == 0
    assert result.stdout.startswith("Memorised 2 files, 2 chunks in ")
    assert "0 unchanged, 1 skipped" in result.stdout
    assert "notes/photo.png is a .png file" in result.stdout
    assert "2 bytes a chunk" in result.stdout


def test_json_is_one_object(mbc, model, notes):
    (notes / "empty.txt").touch()
    told = json.loads(mbc("ingest", notes, "--bank", "b.mbc", "--model", model, "--json").stdout)
    assert (told["files"], told["chunks"], told["unchanged"]) == (2, 2, 0)
    assert told["skipped"] == [{"source": str(notes / "empty.txt"), "reason": "is empty"}]
    assert told["bank"]["documents"] == 2


def test_unchanged_files_are_passed_over(mbc, model, bank, notes):
    told = json.loads(mbc("ingest", notes, "--bank", bank, "--model", model, "--json").stdout)
    assert (told["files"], told["unchanged"]) == (0, 2)


def test_a_missing_path_is_an_error_before_any_model_is_loaded(mbc):
    result = mbc("ingest", "nowhere", "--model", "no-such-model")
    assert result.exit_code == 3
    assert "nowhere does not exist" in result.stderr


def test_nothing_readable_is_an_error(mbc, model, home):
    (home / "photo.png").write_bytes(b"\x89PNG")
    result = mbc("ingest", "photo.png", "--bank", "b.mbc", "--model", model)
    assert result.exit_code == 3
    assert "No file that can be read" in result.stderr
    assert "photo.png is a .png file" in result.output


def test_an_unknown_model_is_an_error(mbc, notes):
    result = mbc("ingest", notes, "--bank", "b.mbc", "--model", "no-such-model")
    assert result.exit_code == 4
    assert "no-such-model" in result.stderr


def test_another_models_bank_is_refused(mbc, tiny, bank, notes, home):
    from mbc_engine.model.checkpoint import save_model

    save_model(tiny.model("llama"), tiny.config("llama"), home / "other")
    result = mbc("ingest", notes, "--bank", bank, "--model", "other")
    assert result.exit_code == 4
    assert "--model" in result.stderr


def test_a_stop_keeps_what_was_committed(mbc, model, notes, monkeypatch):
    work = engine.ingest

    def interrupted(*arguments, stop, **options):
        stop.set()
        yield from work(*arguments, stop=stop, batch_chunks=1, **options)

    monkeypatch.setattr(engine, "ingest", interrupted)
    result = mbc("ingest", notes, "--bank", "b.mbc", "--model", model)
    assert result.exit_code == 130
    assert "is saved" in result.stderr
    assert "Memorised 1 file" in result.stdout
    assert len(mbc("bank", "list", "--bank", "b.mbc").stdout.splitlines()) == 1

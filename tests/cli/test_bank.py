import json


def test_info_tells_sizes_and_model(mbc, bank):
    shown = mbc("bank", "info", "--bank", bank).stdout
    assert "2 documents, 2 chunks" in shown
    assert "12 bits: 4 tokens of 8 codes" in shown
    told = json.loads(mbc("bank", "info", "--bank", bank, "--json").stdout)
    assert (told["documents"], told["chunks"], told["sizes"]["codes"]) == (2, 2, 4)
    assert told["codes"]["bits_per_chunk"] == 12
    assert told["model"]["fingerprint"] in shown


def test_the_environment_names_the_bank(mbc, bank, monkeypatch):
    monkeypatch.setenv("MBC_BANK", str(bank))
    assert json.loads(mbc("bank", "info", "--json").stdout)["path"] == str(bank)


def test_a_missing_bank_is_an_error(mbc, home):
    for command in ("info", "list"):
        result = mbc("bank", command)
        assert result.exit_code == 5
        assert "XDG_DATA_HOME/mbc/memory.mbc" in result.stderr


def test_another_file_is_not_a_bank(mbc, notes):
    result = mbc("bank", "info", "--bank", notes / "ada.txt")
    assert (result.exit_code, result.stdout) == (5, "")


def test_list_is_tab_separated_in_a_pipe(mbc, bank):
    rows = [line.split("\t") for line in mbc("bank", "list", "--bank", bank).stdout.splitlines()]
    assert [(row[0], row[3]) for row in rows] == [("1", "notes/ada.txt"), ("1", "notes/bruno.md")]


def test_list_as_json_has_whole_paths(mbc, bank, notes):
    told = json.loads(mbc("bank", "list", "--bank", bank, "--json").stdout)
    assert [document["source"] for document in told] == [str(notes / "ada.txt"), str(notes / "bruno.md")]


def test_a_hostile_file_name_is_shown_not_obeyed(mbc, model, home):
    folder = home / "[red]"
    folder.mkdir()
    (folder / "\x1b[2J\u202egnp.txt").write_text("Ada moved to Aalen.")
    shown = mbc("ingest", folder, "--bank", "b.mbc", "--model", model)
    listed = mbc("bank", "list", "--bank", "b.mbc")
    assert "[red]/␛[2J<U+202E>gnp.txt" in listed.stdout
    assert "\x1b" not in shown.output + listed.output


def test_remove_takes_relative_paths(mbc, bank):
    assert mbc("bank", "remove", "notes/ada.txt", "--bank", bank).stdout == "Removed 1 document; the bank holds 1.\n"
    assert "ada" not in mbc("bank", "list", "--bank", bank).stdout


def test_remove_as_json(mbc, bank, notes):
    told = json.loads(mbc("bank", "remove", notes / "ada.txt", notes / "bruno.md", "--bank", bank, "--json").stdout)
    assert told == {"removed": [str(notes / "ada.txt"), str(notes / "bruno.md")], "documents": 0}


def test_remove_refuses_all_when_one_is_unknown(mbc, bank):
    result = mbc("bank", "remove", "notes/ada.txt", "nobody.txt", "--bank", bank)
    assert result.exit_code == 5
    assert "nobody.txt" in result.stderr
    assert "ada" in mbc("bank", "list", "--bank", bank).stdout

from mbc_cli.render.terminal import is_on

QUESTION = "Where did Ada move?"


def test_quiet_prints_only_data(mbc, memory):
    command = ["ask", QUESTION]
    loud = mbc(*command)
    assert loud.stderr
    for place in (0, 1, 2):
        quiet = mbc(*command[:place], "--quiet", *command[place:])
        assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, loud.stdout, "")


def test_quiet_prints_errors(mbc):
    result = mbc("bank", "info", "--bank", "none.mbc", "--quiet")
    assert result.exit_code == 5
    assert result.stderr.startswith("Error: No bank at none.mbc.")


def test_verbose_shows_where_options_came_from(mbc, small_bank, home, monkeypatch):
    config = home / "config.toml"
    config.write_text(f'bank = "{small_bank}"')
    monkeypatch.setenv("MBC_CONFIG", str(config))
    lines = mbc("--verbose", "bank", "info").stderr.splitlines()
    assert lines[:2] == [f"config file: {config}", f"from the config: --bank {small_bank}"]
    monkeypatch.setenv("MBC_BANK", str(small_bank))
    lines = mbc("bank", "info", "--verbose").stderr.splitlines()
    assert lines[1] == f"from the environment: --bank {small_bank}"
    assert lines[-1].startswith("mbc bank info: 0.")
    assert "--bank" not in mbc("bank", "info", "--verbose", "--bank", small_bank).stderr


def test_verbose_shows_the_model(mbc, bank, model):
    output = mbc("ask", QUESTION, "--bank", bank, "--model", model, "--verbose").stderr
    assert f"model: {model} on cpu, loaded in " in output


def test_verbosity_ends_with_the_command(mbc, small_bank):
    mbc("bank", "info", "--bank", small_bank, "--quiet")
    assert not is_on("quiet")
    assert mbc("bank", "verify", "--bank", small_bank, "--verbose").stderr
    assert not is_on("verbose")

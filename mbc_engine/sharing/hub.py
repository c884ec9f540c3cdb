"""Pulling a model from the hub and pushing one to it, by the hub's own client and checked on either way."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import gaierror
from typing import Final, Literal

from huggingface_hub import CommitOperationAdd, HfApi, ModelCard, errors, get_token, snapshot_download

from mbc_engine.config import Config, is_model, packaged_model
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.runs.training_runs import RunHistory
from mbc_engine.sharing import CARD, MODEL_FILES, check, is_hub_id
from mbc_engine.sharing.card import MARK, model_card

_LOG_IN: Final = "Log in with `hf auth login`, or set HF_TOKEN."
_NAMES: Final = "Names consist of letters, digits, dots, dashes and underscores, for example ada/notes-gpt2."
# What the client raises when no answer comes; which HTTP library it uses differs between versions.
_HTTP_ERROR: Final[type[Exception]] = errors.HfHubHTTPError.__bases__[0]
_NO_ANSWER: Final = (_HTTP_ERROR, errors.LocalEntryNotFoundError, ConnectionError, TimeoutError, gaierror)


@dataclass(frozen=True)
class Transfer:
    """A model that was pulled or pushed: its config, the commit, the bytes of its files, and where its card is from."""

    config: Config
    revision: str | None
    size: int
    card: Literal["written", "beside", "kept"]


def pull(
    repository: str, models: Path, *, name: str | None = None, revision: str | None = None, replaces: bool = False
) -> Transfer:
    """Download a model into a folder of models, check it, then move it into place.

    Only a model's files are downloaded; an interrupted download is continued by the next pull. It is saved under `name`,
    by default `repository`.

    Raises:
        ConfigError: a name is not valid or taken.
        ModelError: it is not on the hub, cannot be downloaded, or is not sound.
    """
    _require_repository(repository)
    place = _free_place(models, name or repository, replaces=replaces)
    incoming = models / f".{(name or repository).replace('/', '--')}"
    with _hub_errors(repository, revision):
        info = HfApi().model_info(repository, revision=revision)
        there = {sibling.rfilename for sibling in info.siblings or ()}
        if missing := [file for file in MODEL_FILES if file not in there]:
            raise ModelError(
                f"{repository} is not an mbc model: it has no {missing[0]}.",
                hint="Check the name with its owner; retriever-readers such as mini cannot be shared yet.",
            )
        files = [*MODEL_FILES, *({CARD} & there)]
        snapshot_download(repository, revision=info.sha, local_dir=incoming, allow_patterns=files, library_name="mbc")
        whole = Path(tempfile.mkdtemp(dir=incoming)) / "whole"
        for file in files:
            (whole / file).parent.mkdir(parents=True, exist_ok=True)
            (incoming / file).rename(whole / file)
        try:
            config = check(whole, repository, "Report it to its owner. Nothing was saved.")
            place.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(place):
                place.rename(whole.with_name("replaced"))
            whole.rename(place)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
        return Transfer(config, info.sha, sum((place / file).stat().st_size for file in files), "kept")


def push(
    folder: Path,
    repository: str,
    *,
    licence: str | None = None,
    history: RunHistory | None = None,
    command: str | None = None,
    replaces: bool = False,
    is_private: bool = False,
) -> Transfer:
    """Share the model in a folder in one commit, with a model card, creating the repository if needed.

    A card written by hand is kept, the one beside the model rather than the one on the hub; else `model_card` writes it.

    Raises:
        ConfigError: the name is not valid or taken, or the licence belongs into a card that is kept.
        ModelError: the model is not sound, names a path on this machine, or the hub refuses it.
    """
    _require_repository(repository)
    config = check(folder, f"The model in {folder}", "Fix it before sharing; others could not use it either.")
    api = HfApi(library_name="mbc")
    with _hub_errors(repository):
        try:
            there = {sibling.rfilename for sibling in api.model_info(repository).siblings or ()}
        except errors.RepositoryNotFoundError:
            there = set()
        if there.intersection(MODEL_FILES) and not replaces:
            raise ConfigError(f"{repository} is on the hub already.", hint="--force replaces the model there.")
        additions = [CommitOperationAdd(name, str(folder / name)) for name in MODEL_FILES]
        if (folder / CARD).is_file():
            card: Literal["written", "beside", "kept"] = "beside"
            additions.append(CommitOperationAdd(CARD, str(folder / CARD)))
        elif CARD in there and MARK not in ModelCard.load(repository).content:
            card = "kept"
        else:
            card = "written"
            text = model_card(config, repository, licence=licence, history=history, command=command)
            additions.append(CommitOperationAdd(CARD, text.encode()))
        if licence and card != "written":
            raise ConfigError("The model card was written by hand.", hint="Write the licence into it, not --license.")
        if not get_token():
            raise ModelError("You are not logged in to the hub.", hint=_LOG_IN)
        api.create_repo(repository, private=is_private or None, exist_ok=True)
        if is_private and not api.model_info(repository).private:
            raise ModelError(f"{repository} exists already and is public.", hint="Change it on the hub first.")
        commit = api.create_commit(repository, additions, commit_message="Share a model of mbc")
    return Transfer(config, commit.oid, sum(addition.upload_info.size for addition in additions), card)


def _require_repository(text: str) -> None:
    if text.count("/") != 1 or not is_hub_id(text):
        raise ConfigError(f"{text!r} is not of the form OWNER/NAME.", hint=_NAMES)


def _free_place(models: Path, name: str, *, replaces: bool) -> Path:
    place, another = models / name, "Choose another --name."
    if not is_hub_id(name):
        raise ConfigError(f"{name!r} is not a valid model name.", hint=f"Use NAME or OWNER/NAME. {_NAMES}")
    if is_model(packaged_model(name)):
        raise ConfigError(f"{name} is the name of a built-in model.", hint=another)
    if os.path.lexists(place) and not is_model(place):
        raise ConfigError(f"{place} exists and is not a model.", hint=another)
    if os.path.lexists(place) and not replaces:
        raise ConfigError(f"There is a model {name} already.", hint="Replace it with --force, or use another --name.")
    return place


@contextmanager
def _hub_errors(repository: str, revision: str | None = None) -> Iterator[None]:
    """Raise the errors of the hub's client, the network and the file system as ModelError, in words."""
    try:
        yield
    except (_HTTP_ERROR, OSError) as error:
        message, hint = _in_words(error, repository, revision)
        raise ModelError(message, hint=hint) from error


def _in_words(error: Exception, repository: str, revision: str | None) -> tuple[str, str]:
    match error:
        case errors.RepositoryNotFoundError():
            return (
                f"There is no {repository} on the hub, or you have no access to it.",
                f"Check the name. A gated model needs its owner's approval. {_LOG_IN}",
            )
        case errors.RevisionNotFoundError():
            return f"{repository} has no revision {revision!r}.", "Give a branch, a tag or a commit, or leave it out."
        case errors.OfflineModeIsEnabled():
            return "HF_HUB_OFFLINE is set, so the hub is not contacted.", "Unset it, or copy the model's folder."
        case errors.HfHubHTTPError():
            return f"The hub refused the request: {error.server_message or str(error).splitlines()[0]}", _LOG_IN
        case OSError() if error.errno is not None and not isinstance(error, _NO_ANSWER):
            return f"{error.filename or repository}: {error.strerror}.", "Check permissions and free disk space."
    return "The hub cannot be reached.", "Check the network, or copy the model's folder."

"""Data is never executed: no pickles, and no code from other people's models.

Ruff's security rules refuse eval, exec, pickle, marshal, shelve, unsafe YAML and shells; that nobody silences them, and
what they do not know, is looked for here.
"""

import ast
import re
from pathlib import Path

import mbc_cli
import mbc_engine

MODULES = [path for package in (mbc_cli, mbc_engine) for path in sorted(Path(package.__path__[0]).rglob("*.py"))]
RUNNING = {"__import__", "eval", "exec", "pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
CALLS = {"torch.load", "os.system", "os.popen", "yaml.load", "np.load", "numpy.load", "pd.read_pickle"}
KEYWORDS = {"trust_remote_code": False, "allow_pickle": False, "weights_only": True, "shell": False}
SILENCED = re.compile(r"noqa:.*\bS(?:102|301|302|307|4\d\d|506|60[245]|614)\b")
# A module without any of these words has nothing to look for.
MENTIONED = re.compile("|".join(map(re.escape, [*RUNNING, *CALLS, *KEYWORDS, "noqa:"])))


def dangers(code):
    """What in a module could run what it reads."""
    if not MENTIONED.search(code):
        return  # parsing all modules takes seconds
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id=name) if name in RUNNING:
                yield name
            case ast.alias(name=name) | ast.ImportFrom(module=str(name)) if name.partition(".")[0] in RUNNING:
                yield name
            case ast.Attribute(value=ast.Name(id=module), attr=name) if f"{module}.{name}" in CALLS:
                yield f"{module}.{name}"
            case ast.keyword(arg=str(name), value=value) if name in KEYWORDS:
                if not (isinstance(value, ast.Constant) and value.value is KEYWORDS[name]):
                    yield name
    yield from SILENCED.findall(code)


def test_no_module_executes_data():
    assert list(dangers("import pickle; np.load(a); load(a, weights_only=False)  # noqa: S301")) != []
    assert len(MODULES) > 100
    assert {path.name: found for path in MODULES if (found := list(dangers(path.read_text("utf-8"))))} == {}

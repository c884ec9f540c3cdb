"""A pytest plugin that notes which lines of the engine run, for `coverage report`.

Every statement notes its own line, which costs little; tracing, as coverage.py works below Python 3.12, takes as long as
the tests themselves, or twice that.
"""

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from coverage import CoverageData

ENGINE = Path(__file__).resolve().parents[1] / "mbc_engine"
LINES: dict[str, list[int]] = {}  # of each file, 1 at the number of each line that has run


class Noting(ast.NodeTransformer):
    """Puts a statement that notes its line before each, and one that notes a clause's line first in it."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, name, None), list):
                setattr(node, name, [*self.noted(node, statements)])
        return node

    def noted(self, node: ast.AST, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        if isinstance(node, ast.ExceptHandler | ast.match_case):
            clause = node if isinstance(node, ast.ExceptHandler) else node.pattern
            yield noting(clause.lineno, statements[0])
        for at, one in enumerate(statements):
            is_docstring = at == 0 and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
            for place in [] if is_docstring else [one, *getattr(one, "decorator_list", ())]:
                yield noting(place.lineno, one)
            yield one


def noting(line: int, beside: ast.stmt) -> ast.stmt:
    place = ast.Subscript(ast.Name("__lines__", ast.Load()), ast.Constant(line), ast.Store())
    return ast.fix_missing_locations(ast.copy_location(ast.Assign([place], ast.Constant(1)), beside))


class Loader(SourceFileLoader):
    """Compiles a module of the engine with its notes."""

    def get_code(self, fullname: str) -> CodeType:
        return compile(Noting().visit(ast.parse(self.get_data(self.path))), self.path, "exec")

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__lines__"] = LINES.setdefault(self.path, [0] * (self.get_data(self.path).count(b"\n") + 2))
        super().exec_module(module)


class Finder(MetaPathFinder):
    """Finds the modules of the engine for `Loader`."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname.startswith("mbc_engine") else None
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(fullname, spec.loader.path)
        return spec


sys.meta_path.insert(0, Finder())


def pytest_sessionfinish() -> None:
    data = CoverageData(suffix=str(os.getpid()))
    data.add_lines({path: [number for number, has_run in enumerate(lines) if has_run] for path, lines in LINES.items()})
    data.touch_files(map(str, ENGINE.rglob("*.py")))  # also those that nothing imports
    data.write()

"""A tree of folders and files, whose names cannot do anything but be read."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rich.text import Text, TextType
from textual.widgets import DirectoryTree
from textual.widgets.directory_tree import DirEntry
from textual.widgets.tree import TreeNode

from mbc_cli.text import plain

# So many nodes of a folder are made in a moment; a person looks for others by typing a path.
_MOST: Final = 1000


class FolderTree(DirectoryTree):
    """What can be memorised: no hidden files, and of a large folder the first thousand."""

    ICON_NODE_EXPANDED = "▾ "
    ICON_NODE = "▸ "
    ICON_FILE = "  "

    @property
    def chosen(self) -> Path | None:
        """What the cursor is on; None where that is no file."""
        node = self.cursor_node
        return None if node is None or node.data is None else Path(node.data.path)

    async def show(self, path: Path) -> None:
        """Show another folder, or the one a file is in, with the cursor on that."""
        is_folder = await asyncio.to_thread(path.is_dir)
        self.set_reactive(FolderTree.path, path if is_folder else path.parent)
        await self.watch_path()
        for node in self.root.children:
            if not is_folder and node.data is not None and node.data.path.name == path.name:
                self.move_cursor(node)

    def process_label(self, label: TextType) -> Text:
        """A name as a line that is no markup."""
        return Text(plain(label) or "/", no_wrap=True)

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        """Leave out what an ingest leaves out."""
        return (path for path in paths if not path.name.startswith("."))

    def _populate_node(self, node: TreeNode[DirEntry], content: Iterable[Path]) -> None:
        paths = list(content)
        super()._populate_node(node, paths[:_MOST])
        if len(paths) > _MOST:
            node.add_leaf(f"… and {len(paths) - _MOST:,} more")

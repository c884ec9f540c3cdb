"""Zip files made of texts and bytes."""

import io
import zipfile
from collections.abc import Mapping


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    """An archive of these files, by name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()

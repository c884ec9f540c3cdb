"""The paper's model: each part of section 3 in its own file, composed by `mbc.py`."""

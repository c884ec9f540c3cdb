"""The model: every part of the paper's section 3, one idea a file; `mbc.py` composes them."""

"""`mbc bank`: what is done with a bank. Only `reencode` and `upgrade` need a model."""

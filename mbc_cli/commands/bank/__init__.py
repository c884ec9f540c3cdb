"""`mbc bank`: what is done with a bank. Only `reencode` needs a model."""

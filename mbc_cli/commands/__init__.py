"""The commands. `mbc --help` imports them all, so they import the heavy parts of the engine inside functions."""

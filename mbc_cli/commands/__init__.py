"""One file or folder a verb, whose options `mbc --help` reads: it imports the engine in function bodies alone."""

"""One file a verb. Imports of the engine stand in function bodies: `mbc --help` loads none of it."""

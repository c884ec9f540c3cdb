"""An HTTP server through which other programs query a memory and add documents."""

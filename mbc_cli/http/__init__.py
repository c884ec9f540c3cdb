"""An HTTP server by which other programs ask a memory and put documents into it."""

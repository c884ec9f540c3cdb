"""A Model Context Protocol server on stdio: a memory as a tool of assistants."""

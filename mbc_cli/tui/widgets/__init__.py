"""The building blocks of views. Widgets do not use the engine."""

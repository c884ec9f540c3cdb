"""The dashboard: `mbc tui`. Jobs use the engine and post messages, the app holds the state, views draw it."""

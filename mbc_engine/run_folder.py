"""The files of a training run's folder."""

CONFIG = "config.toml"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.safetensors"
MODEL = "model"

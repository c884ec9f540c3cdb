"""What a preset is compared with: the same but for the one thing whose worth is in question."""

from mbc_engine.config import Config


def mac_of(config: Config) -> Config:
    """MAC, the paper's strongest rival: the same model without codes and without KV-LoRA (paper, section 4.3.2)."""
    model = config.model
    changes = {"quantised": False, "lora": model.lora.model_copy(update={"layers": 0}), "confidence": None}
    training = config.training.model_copy(update={"quantise_from": 0.0})
    return config.model_copy(update={"model": model.model_copy(update=changes), "training": training})


def without_reset(config: Config) -> Config:
    """The same without the online reset of dead codes (paper, sections 3.3 and 4.4.4)."""
    return config.model_copy(update={"training": config.training.model_copy(update={"reset_codes": False})})

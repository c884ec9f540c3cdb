"""Settings of an experiment: base LMs × datasets × methods × protocols, typed and checked, as TOML on the disk."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt

Rate = Annotated[FiniteFloat, Field(gt=0)]
Protocol = Literal["online", "retention", "scaling", "code-usage"]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseSettings(_Settings):
    """A row of the table: a base LM and what is built around it."""

    name: str = Field(description="short, for folders")
    title: str = Field(description="as the table shows it")
    preset: str | None = Field(None, description="preset or TOML file that MBC and MAC are trained by")
    changes: list[str] = Field([], description="section.key=value changes of the preset")
    model: str | None = Field(None, description="a trained MBC model, in place of a preset")
    optimiser: Literal["adam", "adafactor"] = Field("adam", description="of fine-tuning, with a preset or a model")


class DatasetSettings(_Settings):
    """A column of the table: questions to train on, to validate on, and to test with."""

    name: str
    title: str
    train: list[str] = []
    questions_train: list[str] = Field([], description="for the base LMs of fine-tuning; [] is `train`")
    validation: str | None = Field(None, description="None holds back documents of `train`")
    test: str
    most_train: PositiveInt | None = Field(None, description="most training questions")
    most_validation: PositiveInt = Field(200, description="most validation documents of a learning-rate sweep")


class QuestionSettings(_Settings):
    """How a base LM is trained on questions, without documents or with (paper, section 4.3.2)."""

    epochs: PositiveInt = 8
    batch_size: PositiveInt = 32
    learning_rate: Rate = 1e-4


class CamelsSettings(_Settings):
    """How CaMeLS' token weights are meta-trained."""

    steps: PositiveInt = 2000
    inner_documents: PositiveInt = Field(6, description="document-question-answer triples of an inner batch")
    inner_batches: PositiveInt = Field(4, description="inner batches whose outer gradients make a step")
    learning_rate: Rate = Field(1e-4, description="of the weight model")
    inner_rate: Rate = Field(5e-4, description="of the inner update of the base LM")
    locality: FiniteFloat = Field(0.1, ge=0, description="weight of the locality term")


class RetentionSettings(_Settings):
    """The retention protocol (paper, section 4.4.3)."""

    first: PositiveInt = Field(200, description="documents asked about")
    step: PositiveInt = 200
    further: PositiveInt = 1400


class ExperimentSettings(_Settings):
    """An experiment. `cells` are its bases × datasets."""

    title: str
    seed: NonNegativeInt = 0
    bases: list[BaseSettings]
    datasets: list[DatasetSettings]
    methods: list[str]
    protocols: list[Protocol] = ["online"]
    documents: PositiveInt = Field(1665, description="most documents of the stream")
    bank_documents: PositiveInt | None = Field(None, description="documents of a memory; None is all in one")
    questions: PositiveInt | None = Field(None, description="most questions asked, spread evenly; None is all")
    golds: Literal["shortest", "any"] = Field("shortest", description="shortest gold answer, or the best of all")
    read: str | None = Field(None, description="how MBC and MAC read; None is the model's own way")
    rates: list[Rate] = Field(
        [1e-4, 2.5e-5, 6.25e-6, 1.625e-6], min_length=1, description="learning rates that are swept"
    )
    document_window: PositiveInt = Field(512, description="tokens of a piece that a fine-tuning step is made on")
    retention: RetentionSettings = RetentionSettings()
    scaling: list[PositiveInt] = Field([16, 64, 256, 1024], min_length=1)
    question_training: QuestionSettings = QuestionSettings()
    reading_training: QuestionSettings = QuestionSettings()
    camels: CamelsSettings = CamelsSettings()
    code_usage_changes: list[str] = Field([], description="changes of the preset for the two trainings of code-usage")

"""Follow-up questions as they are asked, and questions that are left as they are."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from mbc_engine.answer import AskOptions, Confidence
from mbc_engine.conversation import joined, questions_in, reply_to, rewritten
from mbc_engine.memory import Conversation
from tests.cli import stub_memory

DIALOGUES = [
    json.loads(line)
    for line in Path(__file__).parents[1].joinpath("recipes/mini/follow_ups.jsonl").read_text("utf-8").splitlines()
]
BEFORE, ANSWER = "Who wrote Angel Catbird?", "Margaret Atwood"


@pytest.mark.parametrize("turns", [dialogue["turns"] for dialogue in DIALOGUES], ids=lambda turns: turns[0]["question"])
def test_follow_ups_are_completed(turns):
    before = turns[0]["question"]
    for last, turn in pairwise(turns):
        before = rewritten(turn["question"], before, last["answers"][0])
        assert before == turn["asked"]


@pytest.mark.parametrize(
    "question",
    [
        "Where was Ada Lovelace born?",
        "where was ada lovelace born",
        "What did Ada say when she left?",
        "Which senator said he was angry?",
        "Who says that she was imprisoned?",
        "who lost his seat in hong kong",
        "What did the Warhol foundation ask of its curators?",
        "In its first year, what did Microsoft sell?",
        "Where had the capital been before Kublai moved it?",
        "What language do they speak in Brittany?",
        "How many people were there at the Hajj?",
        "Is there a lighthouse in Bergen?",
        "What time is it?",
        "Is it true that Ada won?",
        "How long does it take to build a bridge?",
        "Why is it called guerrilla?",
        "How many episodes did Leave It to Beaver have?",
        "What's RNA?",
        "belgium panama score",
        "Who won the race this year?",
        "And who founded Microsoft?",
        "",
        "?",
    ],
)
def test_standalone_questions_are_left_alone(question):
    assert rewritten(question, BEFORE, ANSWER) == question


@pytest.mark.parametrize(
    ("question", "before", "answer", "asked"),
    [
        ("when?", "Who wrote Angel Catbird?", None, "when wrote Angel Catbird?"),
        ("How old is she?", "Who wrote Angel Catbird?", None, "How old is she, wrote Angel Catbird?"),
        ("What is his rank?", "Who spoke?", "Major general Fuad Basya", "What is Fuad Basya's rank?"),
        ("What about her?", "When did Ada Lovelace win?", "1931", "Ada Lovelace, Ada Lovelace win?"),
        ("How low was it?", "When was the fee at its lowest in May?", "2", "what was the fee at its lowest in May?"),
        ("How old was it?", "When was the price at its lowest?", "2 May", "How old was the price?"),
        ("what colour was it painted?", "Who painted the hut of Vik?", "Bo", "what colour was the hut of Vik painted?"),
        ("Why is that?", BEFORE, ANSWER, "Why is that, wrote Angel Catbird, Margaret Atwood?"),
        ("Who was mayor then?", "When did the bridge fall?", "1931", "Who was mayor in 1931?"),
        ("and the SSH port?", "What is the default port?", "80", "What is the SSH port?"),
        ("and my PIN?", "What is my password?", "abc", "What is my PIN?"),
        ("and in the 1980s?", "In the 1990s, who ruled?", None, "In the 1980s who ruled?"),
        ("and the car?", "Ships sink?", None, "the car sink?"),
        ("and her email?", "what is ada's phone number", "12", "ada's email?"),
        ("where does she live", "what is the salary of the head nurse", None, "where does head nurse live?"),
        ("who are they", "how many boats does the club own", "3", "who are the boats that the club own?"),
        ("whats her number?", "who is the manager?", "Ada Holm", "whats Ada Holm's number?"),
        ("where to?", "when did bo go on holiday", "1", "where to did bo go on holiday?"),
        ("and flood?", "whats the excess for fire", "250", "whats the excess for flood?"),
        ("and in july?", "what did ada present in june", "x", "what did ada present in july?"),
        ("and the tower?", "when was the bridge built", "1", "when was the tower built?"),
        ("and of bo?", "what is ada's phone number", "12", "what is phone number of bo?"),
        ("and last year?", "how much is the rent of flat a", "775", "how much is the rent of flat a last year?"),
        ("and for flat b?", "how much is the rent of flat a", "775", "how much is the rent of flat b?"),
        ("and who built the ferry?", "Who built the church?", "Ada", "and who built the ferry?"),
        ("And which year was the ox sold?", "Who sold the old ox?", "Bo", "which year was the ox sold, sold old ox?"),
        ("and who paid?", "Who built the church?", "Ada", "who paid, built church?"),
        ("And who won the second prize?", "Who won the race?", "Ada", "who won the second prize, won race?"),
        ("And on 10 May?", "Where do we sleep on 9 May?", "Vik", "Where do we sleep on 10 May?"),
        ("And the day after?", "Who sang on 9 May?", "Ada", "Who sang on 10 May?"),
        ("And the previous day?", "Who sang on 2026-05-10?", "Ada", "Who sang on 2026-05-09?"),
        ("And the day after?", "Who sang on 31 May?", "Ada", "Who sang on 1 June?"),
        ("And the day before?", "Who sang on 2024-03-01?", "Ada", "Who sang on 2024-02-29?"),
        ("And the day before?", "Who sang on 2024-13-01?", "Ada", "Who sang on the day before?"),
        ("And the day before?", "Who sang on 0001-01-00?", "Ada", "Who sang on 0001-12-30?"),
        ("And the smallest lake?", "What is the largest river in Vik?", "Ada", "What is the smallest lake in Vik?"),
        ("And the harvest?", "When is the earliest sowing?", "Ada", "When is the harvest?"),
        ("And the youngest?", "Who is the most able member?", "Ada", "Who is the youngest member?"),
        ("And the salad?", "What is the price of the soup?", "4", "What is the price of the salad?"),
        ("And the email?", "What is the phone number of the school?", "12", "What is the email of the school?"),
        ("And the deposit?", "What is the rent of the flat?", "700", "What is the deposit of the flat?"),
        ("And on the dryer?", "What does E01 mean on the washer?", "x", "What does E01 mean on the dryer?"),
        ("And music?", "Who taught maths to Ada?", "Bo", "Who taught music to Ada?"),
        ("And in May?", "What did Ada present in June?", "x", "What did Ada present in May?"),
        ("And the sauna?", "Is the pool open on Monday?", "Yes", "Is the sauna open on Monday?"),
        ("And the deposit?", "When is the rent due?", "1", "When is the deposit due?"),
        ("And the right one?", "How good is the left eye?", "0.8", "How good is the right eye?"),
        ("When was it built?", "What is the height of the tower?", "30 m", "When was the tower built?"),
        ("Where is it?", "When is the meeting of the board?", "May", "Where is the meeting?"),
        ("And Bo?", "What is Ada's phone number?", "12", "What is Bo's phone number?"),
        ("And Bo's?", "What is Ada's phone number?", "12", "What is Bo's phone number?"),
        ("And the men's race?", "Who won the women's race?", "Ada", "Who won the men's race?"),
        ("And the men's?", "Who won the women's race?", "Ada", "Who won the men's race?"),
        ("And who was second?", "Who was first in the race?", "Ada", "who was second, race?"),
        ("And the price?", "What is the name of the car?", "Tern", "What is the price of the car?"),
        ("And for wool?", "What is the greatest load?", "8 kg", "What is the greatest load for wool?"),
        ("And without a bed?", "How big is a room with a bed in Vik?", "8", "How big is a room without a bed in Vik?"),
        ("And who else?", "Who was present?", "Ada", "who else was present?"),
        ("And tomorrow?", "What is for lunch today?", "soup", "What is for lunch tomorrow?"),
        ("And his wife?", "When was Jakob Holm born?", "1868", "When was Jakob Holm's wife born?"),
        ("And his wife?", "Who is the chair?", "Jakob Holm", "Jakob Holm's wife?"),
        ("Who lived there then?", "Where did Ada live?", "Bergen", "Who lived in Bergen then?"),
    ],
)
def test_unsure_rules_add_words_of_the_previous_question(question, before, answer, asked):
    assert rewritten(question, before, answer) == asked


@pytest.mark.parametrize(
    "before", ["So ... who built the bridge?", 'Who wrote " The Wall " ?', "... ? !", "' 's \u2019s who"]
)
def test_punctuation_is_no_antecedent(before):
    for question in ("When was it built?", "And who were they?", "what about there"):
        for answer in ("", "...", None):
            assert rewritten(question, before, answer)


def test_long_questions_are_left_alone():
    assert rewritten("And when?", "", None) == "And when?"  # nothing precedes it
    long = "he said that it " * 100
    assert rewritten("And when?", long, None) == "And when?"
    assert rewritten(long, BEFORE, ANSWER) == long


@pytest.mark.parametrize(
    ("line", "questions"),
    [
        ("Who owns the Tern, and who sails it?", ["Who owns the Tern?", "who sails it?"]),
        ("Who won? When was it held?", ["Who won?", "When was it held?"]),
        ("In which year was it built, and who built it", ["In which year was it built?", "who built it?"]),
        ("When was Ada born and where did she die?", ["When was Ada born?", "where did she die?"]),
        ("what do buns bake at and for how long", ["what do buns bake at?", "for how long?"]),
        ("When is the next race and where?", ["When is the next race?", "where?"]),
        ("how many copies of it and at what price", ["how many copies of it?", "at what price?"]),
        ("in what year and in what city was Ada born", None),
        ("Who were Ada and Bo?", None),
        ("Where and when was Ada born?", None),
        ("What happened and why?", None),
        ("Do you know? Ada left.", None),
        ('"Who is she?" asked whom?', None),
    ],
)
def test_questions_on_a_line(line, questions):
    assert questions_in(line) == (questions or [line])


@pytest.mark.parametrize(("line", "reply"), [("Thanks!", "welcome"), ("hello there", "Hello"), ("OK", "All right")])
def test_small_talk_is_no_question(line, reply):
    assert reply in str(reply_to(line))
    assert rewritten(line, "Who is Ada?", "a singer") == line


@pytest.mark.parametrize("line", ["hello world", "ok corral", "thanks to whom did they win?", "good beer"])
def test_what_may_be_a_question(line):
    assert reply_to(line) is None


def test_questions_of_a_conversation_follow_up_on_the_one_before():
    memory = stub_memory.StubMemory(Path("a.mbc"))
    conversation = Conversation(memory)
    lines = ["Where did Ada move?", "When did she leave?", "Thanks", "And why?"]
    answers = [conversation.ask(line, AskOptions(sources=1), with_codes=True) for line in lines]
    standalone = ["Where did Ada move?", "When did Ada leave?", "Thanks", "why did Ada leave?"]
    assert [questions for questions, _ in memory.batches] == [[each] for each in standalone]
    said = [(), ((lines[0], "Aalen"),), *[((lines[1], "Aalen"),)] * 2]
    assert [options for _, options in memory.batches] == [
        AskOptions(sources=1, with_codes=True, earlier=earlier) for earlier in said
    ]
    assert [(each.question, each.asked) for each in answers][1:3] == [(lines[1], standalone[1]), ("Thanks", None)]


def test_answers_that_are_joined_keep_what_is_said_of_each():
    sure, unsure = Confidence(0.9, "high"), Confidence(0.6, "medium")
    written = stub_memory.answer(
        "Ada won the race.", extracted="Ada", written_by="lm", confidence=sure, missing_banks=("a",)
    )
    quoted = stub_memory.answer("2019", confidence=unsure, missing_banks=("a", "b"))
    for answers in ((written, quoted), (quoted, written)):
        made = joined("Who won, and when?", answers)
        assert (made.confidence, made.extracted, made.written_by) == (unsure, "2019", "lm")
        assert made.missing_banks == ("a", "b")
    absent = replace(written, text=None)
    assert joined("Who won, and when?", [written, replace(quoted, confidence=sure)]).extracted == "Ada"
    for answers in ((quoted, quoted), (quoted, absent), (absent, quoted)):
        made = joined("Who won, and when?", answers)
        assert (made.confidence, made.extracted, made.written_by) == (unsure, None, None)

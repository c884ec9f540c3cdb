"""Kinds of question, told by their words, and the answers that rules compose from passages."""

import pytest

from mbc_engine.mini.kinds import compose
from mbc_engine.mini.kinds.definitions import said_of_name
from mbc_engine.mini.kinds.forms import kind_of
from mbc_engine.mini.kinds.identifiers import identified
from mbc_engine.mini.kinds.lists import cells_alike, length_of_list
from mbc_engine.mini.kinds.passages import Passage, search_text
from mbc_engine.mini.kinds.periods import during, names_day
from mbc_engine.mini.kinds.quotations import asked_there
from mbc_engine.mini.kinds.settings import is_of_another_file, setting, settings_in


@pytest.mark.parametrize(
    ("kind", "questions"),
    {
        "fact": "When was Ada born?|Where is the town hall?|Where was the treaty signed?|What class of boat is it?|where does simon live|How many boats does the club own?|Who is the treasurer?|"
        "When he left, did she know what he wanted?|Which article is out of stock?|What is Ada angry about?|What is all the fuss about?|"
        "What was said to be the cause?|Who wrote the short summary?|For whose sake, did she leave?|What gas was in the balloons?|Which Giants player scored?|what is the capital of Peru|How tall is it?|What is the default of the -x option?|"
        "Which senator was angry that Houston didn't get a shuttle?|who runs nasa|What happened?",
        "keywords": "belgium panama score|taipei lantern festival mayor",
        "definition": "What does --long do?|what does the -L option of ls do|What does the name parameter of mill mean?|what is -x for in tar|What does KEEP_DAYS mean?",
        "identifier": "Which function parses the header?|what class holds a frame|Where is the page size defined?|where are boats moored",
        "list": "Which boats does the club own?|Who are the members of the board?|What do I need to pack?|Who was present at the meeting?|"
        "On which days is it closed?|List all the rules|what does edie need to pack for the trip|What goes into the icing?",
        "steps": "how do i compare with git?|how does a volunteer get their money back|How do I reset the meter?|how to descale a kettle|What are the steps of cutting a quill?",
        "step": "What is step 2 of starting the mill?|What is the third step of resetting it?",
        "cause": "Why was the bridge closed?|What was the reason for the delay?",
        "summary": "What happened at the mill?|Tell me about Ada|Summarise the report|What do my notes say about roofs?|"
        "Give me the gist of the report|what is the letter to the council about, briefly|What was decided on the roof?",
        "mentions": "Which of my notes mention Ada?|Which articles are about Ada?",
        "several": "Who won?|who died|What was stolen?|What was decided?",
        "yes_no": "Was Ada born in Oslo?|Is mill.open() slow now?|Is self-service open?|May members bring dogs?|Will Ada's boat float?|Bo comes in May, does Ada have to agree?",
        "comparison": "Who is older, Ada or Bo?|Is flat 12 or flat 14 cheaper?|how does flat 12 differ from flat 14",
    }.items(),
)
def test_kinds(kind: str, questions: str) -> None:
    assert {question: kind_of(question) for question in questions.split("|")} == dict.fromkeys(
        questions.split("|"), kind
    )


def answer(question: str, *texts: str, span: str = "", context: str = "") -> tuple[str | None, int] | None:
    """The answer and its number of parts; `span` is what the reader found in the first text."""
    places = [(text.index(span), text.index(span) + len(span)) if span and span in text else None for text in texts]
    passages = [
        Passage(text, f"{at}.txt", at, context, f"2024-0{at + 1}-01", place)
        for at, (text, place) in enumerate(zip(texts, places, strict=True))
    ]
    reply = compose(kind_of(question), question, passages, 0 if places[0] else None)
    return None if reply is None else (reply.text, len(reply.items))


MILL = "# The mill\n\nStarting the mill:\n\n1. Open the gate.\n2. Lift the sluice,\n   slowly.\n3. Wait.\n\nIt was built in 1820."


@pytest.mark.parametrize(
    ("question", "span", "text", "expected"),
    [
        ("What do I need to bring?", "a rope", "Bring:\n- a rope\n- a lamp\n* maps", ("a rope, a lamp and maps", 3)),
        ("what still needs to be done?", "prune", "Tasks\n- [x] prune\n- [ ] dig\n- [ ] sow", ("dig and sow", 2)),
        ("What was fixed in the mill?", "", "# News\n\n## Fixed in the mill\n\n- The sluice", ("The sluice", 1)),
        ("mill parts", "", "# Mill\n\nParts:\n\n- wheel\n- sluice\n\nOthers:\n- a yard", ("wheel and sluice", 2)),
        ("Which tasks are still open?", "dig", "Tasks\n- [x] prune\n- [ ] dig\n- [ ] sow", ("dig and sow", 2)),
        ("How do I start the mill?", "", MILL, ("1. Open the gate. 2. Lift the sluice, slowly. 3. Wait.", 3)),
        ("What is the second step of starting the mill?", "", MILL, ("Lift the sluice, slowly.", 1)),
        ("How do I clean it?", "Wipe", "It is old. Wipe it with a damp cloth.", ("Wipe it with a damp cloth.", 0)),
        ("How do I install it?", "add it", "# Mill\n\nFirst, add it:\n\n```sh\nmill add\n```\n\nThis takes a while.", ("First, add it: mill add", 0)),
        ("How do I update it?", "run", "To update it, run\n\nmill get\n\nand then\n\nmill set\n\nIt may ask.",
         ("To update it, run mill get and then mill set", 0)),
        ("How do I reset it?", "hold", "- hold it for an hour\n\nIt is old.", ("- hold it for an hour", 0)),
        ("How do I turn it?", "slow", "# Turn\n\nIt may be slow:\n\n- slow\n- fast", ("slow fast", 2)),
        ("How do I turn it?", "It may", "# Turn\n\nIt may be turned in two ways.\n\n- slow\n- fast", ("It may be turned in two ways.", 0)),
        ("How do I turn it?", "slow", "turn(it)\n\nIt turns.\n\n- slow {word} How.\n- fast {word} How.", ("- slow {word} How.", 0)),
        ("How do I limit it?", "Limit", "  --rate=N\n    Limit the speed\n    of it. It is high.", ("--rate=N Limit the speed of it.", 0)),
        ("How do I list them?", "-t", "-t, --list\n    List all. It is slow.\n-x\n    Rest.", ("-t, --list List all. It is slow.", 0)),
        ("Which countries signed?", "Peru", "It was signed by Peru, Chile, Cuba and the Gambia in 1998.",
         ("Peru, Chile, Cuba and the Gambia", 4)),
        ("Which materials were used?", "brick", "It is of brick, red stone and glass.", ("brick, red stone and glass", 3)),
        ("Which materials were used?", "brick and stone", "Of brick and stone, it is 40 m long and tall.", ("brick and stone", 2)),
        ("Which payments lack a receipt?", "2 May", "It is for 2 May (4 euros) and 9 May (3 euros).", ("2 May (4 euros) and 9 May (3 euros)", 2)),
        ("What are the parts?", "3 g of barley", "Parts: 3 g of barley, 2 g of oats and salt.", ("3 g of barley, 2 g of oats and salt", 3)),
        ("Which player won?", "Ada", "Ada, a nurse, was there.", None),
        ("Who are the tenants?", "Ada", "Ada is the tenant.\n\n1. Rent. It is due on Mondays.\n\n2. Keys. There are two.", None),
        ("Which animals are kept?", "cats", "The house\n\n1. Pets. There are cats and dogs.\n\n2. Keys. Two are kept.", None),
        ("What are the rules?", "", "The rules\n\n1. Pay. It is due.\n2. Wait. It is late.", ("Pay. It is due. and Wait. It is late.", 2)),
        ("what should a new member bring", "a rope", "Bring:\n- a rope\n- a lamp", ("a rope and a lamp", 2)),
        ("Which bulbs go in stairway A?", "GU10", "# Bulbs\n- stairway A has GU10\n- cellar has E27", None),
        ("Which bulbs are there?", "GU10", "# Bulbs\n- stairway A has GU10\n- cellar has E27", ("stairway A has GU10 and cellar has E27", 2)),
        ("How can a younger member apply?", "letter", "It is free. Members apply by letter.", ("Members apply by letter.", 0)),
        ("which machines stand in the far shed", "", "name: Saw; place: far shed\nname: Drill; place: far barn\nname: Lathe; place: far shed",
         ("Saw and Lathe", 2)),
        ("Why was it closed?", "bearings", "It was closed because two bearings had rusted through, and rebuilt.",
         ("two bearings had rusted through", 0)),
        ("Why was it closed?", "fire", "It closed because of a fire and was sold in May.", ("a fire", 0)),
        ("Why was it closed?", "speed", "It closed because of noise and speed.", ("noise and speed", 0)),
        ("Why was it closed?", "rust", "Its rust was a danger.", None),
        ("Why was it closed?", "rust", f"It closed because of rust {'and so on and on ' * 10}", None),  # speech
        ("Why is the mill closed?", "1820", "The mill is of 1820. It was closed because otters nested there.",
         ("otters nested there", 0)),
        ("Why was the mill sold?", "1820", "The mill is of 1820. It was wet because of rain.", None),
        ("Who attended the meeting?", "Ada", "Board meeting\n\nPresent: Ada (chair), Bo Dahl and Cy\n\n1. Pay.\n2. Ask.", ("Ada (chair), Bo Dahl and Cy", 3)),
        ("Who was present?", "Ada", "Present: Ada (chair), Bo Dahl, Cy\nAbsent: Di", ("Ada (chair), Bo Dahl, Cy", 3)),
        ("How do I make soup?", "50", "# Soup\n\nTakes 50 minutes.\n\n## Soup, with\n- leek\n- salt\n\n## Making soup\n1. Mix.\n2. Boil.",
         ("1. Mix. 2. Boil.", 2)),
        ("What rivers are in Peru?", "", "river: Osk; land: Peru\nriver: Vell; land: Chile\nriver: Ruun; land: Peru", ("Osk and Ruun", 2)),
        ("Which books were published by Harrow & Kent?", "", "book: Ode; publisher: Harrow & Kent\nbook: Ash; publisher: Moss\nbook: Elm; publisher: Harrow & Kent",
         ("Ode and Elm", 2)),
        ("What rivers are in Cuba?", "", "river: Osk; land: Peru\nriver: Vell; land: Chile", None),
        ("Which rivers are not in Peru?", "", "river: Osk; land: Peru\nriver: Vell; land: Chile\nriver: Ruun; land: Peru", None),
        ("Which tasks are done?", "dig", "Tasks\n- [x] prune\n- [ ] dig\n- [ ] sow", ("prune", 1)),
        ("What is step 9 of starting the mill?", "", MILL, None),
        ("What is step 2 of it?", "", "It is old.", None),
        ("Which boats came?", "the Vik", "There came the Vik, the Moss and the Sky.", ("the Vik, the Moss and the Sky", 3)),
        ("Which things are there?", "barley", "There is barley, oats that somebody left here a long time ago in May and salt.", None),
        ("Why was it closed?", "rust", "It closed because of noise, and rust was found.", None),
    ],
)  # fmt: skip
def test_lists_steps_and_causes(question: str, span: str, text: str, expected: tuple[str, int] | None) -> None:
    assert answer(question, text, span=span) == expected


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("Is Ada a vegetarian?", "Ada Holm is a nurse. Vegetarian.", "Ada Holm is a nurse. Vegetarian."),
        ("Was Ada Holm born in Oslo?", "Ada Holm was born in Oslo in 1951 and moved to Bergen.", "Yes"),
        ("Did Ada Holm study in Oslo?", "Ada Holm was born in Bergen. She never studied in Oslo.", "No"),
        ("May members bring dogs?", "Members may not bring dogs. Guests pay.", "No"),
        ("Is the sauna open on Mondays?", "The sauna was open on Mondays.", "The sauna was open on Mondays."),
        ("Are dogs allowed in the hall?", "Dogs are allowed in the yard but not in the hall.",
         "Dogs are allowed in the yard but not in the hall."),
        ("May the tenant sublet the flat?", "The tenant may sublet the flat only in May.",
         "The tenant may sublet the flat only in May."),
        ("Was Leif Holm born in Oslo?", "Leif Holm's sister was born in Oslo.", "Leif Holm's sister was born in Oslo."),
        ("Was Leif Holm born in Oslo?", "The sister of Leif Holm was born in Oslo.", "The sister of Leif Holm was born in Oslo."),
        ("Are dogs not allowed in the flat?", "Dogs are not allowed in the flat.", "Dogs are not allowed in the flat."),
        ("are dogs allowed in the hall", "5. Dogs. None may be kept in the hall.", "5. Dogs. None may be kept in the hall."),
        ("Does the mill run on sundays?", "They run it on wind. Why a mill? Because they run one on hills. Does the mill grind on Sundays? No. It rests.",
         "Does the mill grind on Sundays? No. It rests."),
        ("Did the car pass its inspection in 2026?", "August 2025: the car passed its inspection.", None),
        ("Is the radio charged?", "\u2610 Radio is charged", "No"),
        ("is the small hook in stock", "name: Hook, small; price: 8.5; in stock: yes; sold: no", "Yes"),
        ("Is Ada Holm's subscription paid?", "No: 81; Name: Ada Holm; Fee paid: no; Notes: bursary", "No"),
        ("Is Bo Holm's subscription paid?", "No: 81; Name: Ada Holm; Fee paid: no; Notes: bursary", None),
        ("Does the mill run on Sundays?", "Does the mill run on Sundays?\nBo: no, it rests", "No"),
        ("Can I sell the mill?", "1.1. Can I sell the mill? 1.2. Is it old?\n\n1.1. Can I sell the mill?\n\nGo ahead, if you own it.",
         "Can I sell the mill? Go ahead, if you own it."),
        ("Did we hire a car?", "Hire a car in Vik.", "Hire a car in Vik."),
        ("Did we hire a car?", "We hired a car in Vik.", "Yes"),
        ("Is the meeting on Friday?", "The meeting on Friday is cancelled.", "The meeting on Friday is cancelled."),
        ("Is the meeting on Friday?", "CANCELLED meeting on Friday.", "CANCELLED meeting on Friday."),
        ("Is the meeting on Friday?", "The meeting is on Friday at ten.", "Yes"),
        ("Are dogs allowed in the flat?", "Dogs arent allowed in the flat.", "No"),
        ("Is the old roof repaired?", "The old roof is probably repaired.", "The old roof is probably repaired."),
        ("Will the roof be repaired in May?", "The roof is unlikely to be repaired in May.",
         "The roof is unlikely to be repaired in May."),
        ("Is the hall open to members?", "The hall should be open to members.", "The hall should be open to members."),
        ("Is the pool heated?", "The new stove costs 90 euros.", None),
        ("Who is older, Ada or Bo Holm?", "Ada was born in 1951. Bo Holm was born in 1948.", "Bo Holm"),
        ("Who is older, Ada or Bo?", "Ada is 45 years old. Bo is 50 years old.", "Bo"),
        ("Who is younger, Ada or Bo?", "name: Ada; born: 1951\nname: Bo; born: 1948", "Ada"),
        ("Which is faster, the train or the bus?", "The fast train takes 45 minutes. The fast bus takes 50 minutes.", "the train"),
        ("Which is slower, the train or the bus?", "The train takes 45 minutes. The bus takes 50 minutes.", "the bus"),
        ("Which is faster, the hare or the hound?", "The hare runs as fast as 70 km an hour. The hound is fast: 65 km.", "the hare"),
        ("Which is larger, Vik or Moss?", "Vik has a population of 1500 and 3 schools. Moss has a population of 1800 and 2 schools.",
         "Moss"),
        ("Who has more, Ada or Bo?", "Ada has a flock of 1500 sheep and 2 dogs. Bo has 1200 sheep and 3 dogs.", "Ada"),
        ("Which is slower, the Comet or the Arrow?", "Name: Comet; Speed (km/h): 90\nName: Arrow; Speed (km/h): 120", "the Comet"),
        ("Which is taller, the mill or the inn?", "The mill, built in 1820, is 30 metres tall. The inn, opened in 1850, is 12 metres tall.",
         "the mill"),
        ("How does oak differ from pine?", "Oak is very hard. Pine is rather soft.", "Oak is very hard. Pine is rather soft."),
        ("difference between oak and pine", "Oak is very hard. Pine is rather soft.", "Oak is very hard. Pine is rather soft."),
        ("Which hill is higher, Wren or Kite?", "Kite is 1,840 metres high and Wren is 320 metres high.", "Kite"),
        ("Which is cheaper, the lamp or the rope?", "The lamp costs 9 euros. The rope is cheap.",
         "The lamp costs 9 euros. The rope is cheap."),
        ("Which is cheaper, the bun or the tart?", "item: Bun; unit: bag of 6; price: 3.20\nitem: Plum tart; unit: slice; price: 3.60",
         "the bun"),
        ("which has more ram, heron or stork", "host: heron; cpu: 4; ram: 32\nhost: stork; cpu: 8; ram: 16", "heron"),
        ("Compare the water of C3 and C4 plants", "Light; C3: 2; C4: 1\nWater; C3: 400; C4: 250", "Water; C3: 400; C4: 250"),
        ("What happened at the mill?", "The mill burned down on Sunday. Nobody was hurt. The mill had stood for a century.",
         "The mill burned down on Sunday. The mill had stood for a century."),
        ("What was decided at the mill?", "Mill\n\n- Ada: the wheel is done\n- Bo: ill\n\nDecisions:\n- Gate 5 stays shut\n- We paint",
         "Gate 5 stays shut and We paint"),
        ("What happened on 17 January 2023?", "Sample F17 of January 2023 had -17.8 degrees.", None),
        ("Are we open?", "If you smell gas, open windows at once and leave.", "If you smell gas, open windows at once and leave."),
        ("Are dogs allowed on Mondays?", "Mondays: dogs", "Mondays: dogs"),
        ("What happens if a child is ill?", "A child that is ill stays at home.", None),
        ("What happened in Atlantis?", "The mill burned down on Sunday.", None),
        ("What happened at the mill in Vik?", "The mill burned down on Sunday.", None),
        ("what happened at the old wind mill", "The mill burned down on Sunday.", None),
        ("What happened at the mill in May 2024?", "2024-05-02: the mill burned down for good.", "2024-05-02: the mill burned down for good."),
    ],
)  # fmt: skip
def test_sentences(question: str, text: str, expected: str | None) -> None:
    given = answer(question, text)
    assert (given and given[0]) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does -L do?", "Follow links."),
        ("What does the --long option do?", "Show the owner, and the size. It is slow."),
        ("What is --all for?", "show all files"),
        ("What does the name parameter do?", "str What it is called."),
        ("what does the all flag do", "show all files"),
        ("What does --other do?", None),
        ("the -r option", "Rest a while."),
        ("What does the crumbs option do?", "Keeps all crumbs."),
        ("What does --long do in tar?", None),  # another program's
    ],
)
def test_definitions(question: str, expected: str | None) -> None:
    manual = (
        "With -L and --other, more is said.\n\n--all   show all files\n-L\n      Follow links.\n\n-l, --long\n--longer\n"
        "      Show the owner,\n      and the size. It is slow. It was added late.\n\n--other\n\n* name  : str\n    What it is called."
        "\n\ncrumbs (yes or no)\n\nDefault: no\n\nKeeps all crumbs. They dry.\n\n--rest / -r:\n\nRest a while."
    )
    for text in (manual, manual.replace("\n      ", "\n")):  # as `roff` has it, not further in
        given = answer(question, text)
        assert (given and given[0]) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which function trims the path?", "export function trimPath(path) {"),
        ("Where is the page size defined?", "PAGE_SIZE = 250 # rows"),
        ("Where is the log opened?", "def open_log(self):"),
        ("Where is the constant LOG_SIZE set?", "LOG_SIZE = PAGE_SIZE * 4"),
        *(("trim path", "export function trimPath(path) {"), ("trimPath", "export function trimPath(path) {")),
        *(("log_size page", "LOG_SIZE = PAGE_SIZE * 4"), ("trimPath boats", None), ("open.log", None)),
        *(("trim", None), ("Which function calls open_log?", None)),
        ("Which function sorts the rows?", None),
        ("Where is the log written?", None),
        ("Where is the page kept?", None),  # one word would be found in nearly any name
    ],
)
def test_names_in_programs(question: str, expected: str | None) -> None:
    texts = {
        "LOG_SIZE = PAGE_SIZE * 4\nlog.open_log()": "a > settings",
        "PAGE_SIZE = 250 # rows": "a > settings",
        "import { trimPath, toRows } from 'paths'": "a > view",
        "/// url.trimPath()\nexport function trimPath(path) {\n}": "a > trimPath",
        "def open_log(self):\n    return self.log_file": "a > Log > open_log",
    }
    passages = [Passage(text, f"{at}.py", at, context) for at, (text, context) in enumerate(texts.items())]
    reply = identified(question, passages)
    assert (reply and reply.text) == expected and (reply is None or reply.is_certain)


REFERENCE = """mill.open(gate[, speed])

added:
  - v2.1.0
  - v1.9.0

Stability: 2 - Stable

* gate {string} Which gate.
  It must be shut. Default: `3`
* Returns: {boolean}

```js
mill.open("x"); // slowly
```

Opens a gate and returns whether it was shut. It takes a while.

mill.shut(gate)

+ Throws `Stuck` if it is stuck.

maxSpeed

added: v1.1.0
removed: v3.0.0
- Default: `30` (slow)

Limits the speed.

level (String)

The default value is 'low', which is slow.
"""
HELP = """FUNCTIONS
    lift(sluice, /)
        Lift a sluice, then wait.

        Returns the height.

        Added in version 3.2.

    lower(sluice)
        It sinks.

* depth {number} How deep.
  Deeper is slower. Default: 3 * 3
* width {number} Default: `4`

DelaySec=
    How long to wait. Defaults to 100ms.
"""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does POLL_SECONDS mean?", "Seconds between two polls; see polls.md"),
        ("what does TOP_SPEED mean", "In knots."),
        ("What does MAX_BOATS stand for?", "Of a club"),
        ("What does keep_days mean?", "how long readings are kept."),
        ("What does the value max_size mean?", None),
        ("What does OTHER_ONE mean?", None),
        ("What does load_boats do?", None),  # left to the reader
    ],
)
def test_what_is_said_of_a_value(question: str, expected: str | None) -> None:
    program = (
        "# Seconds between\n# two polls; see polls.md\nPOLL_SECONDS=90\nOTHER_ONE=2\n\n"
        "/* In knots. */\nexport const TOP_SPEED: number = 9;\n\n  // Of a club\n  #define MAX_BOATS 40\n\n"
        "Attributes:\n    keep_days: how long readings are kept.\n\nmax_size: int = 3\n# See above.\nload_boats(max_size)\n"
    )
    given = answer(question, program)
    assert (given and given[0]) == expected


def test_steps_below_a_heading_that_has_the_words_are_certain() -> None:
    text = "make check\n\nIt takes a while."
    for heading, is_certain in (("Running the tests", True), ("Carrying the tests", False), ("Tests", False)):
        reply = compose(
            "steps", "How do I run the tests?", [Passage(text, context=f"read > {heading}", span=(0, 10))], 0
        )
        assert reply is not None
        assert (reply.text, reply.is_certain) == ("make check", is_certain)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What does mill.open do?", "Opens a gate and returns whether it was shut."),
        ("What does mill.open() return?", "{boolean}: Opens a gate and returns whether it was shut."),
        ("which type does mill.open return", "{boolean}"),
        ("When was mill.open added?", "v2.1.0, v1.9.0"),
        ("What is the default of open?", None),  # of its gate
        ("What does mill.shut throw?", "`Stuck` if it is stuck"),
        ("What does maxspeed do?", None),
        ("What does maxSpeed do?", "Limits the speed."),
        ("When was maxSpeed removed?", "v3.0.0"),
        ("What is the default maxSpeed?", "`30` (slow)"),
        ("What's the default of level in mill?", "'low', which is slow"),
        ("What's the default of level in barn?", None),
        ("What does level do?", None),  # a word of any text
        ("What does lift do?", "Lift a sluice, then wait."),
        ("What does lift return?", "the height"),
        ("In which version was lift added?", "3.2"),
        ("What does lower return?", None),
        ("What is the default depth?", "3 * 3"),
        ("What is the default of width?", "`4`"),
        ("What is the default DelaySec?", "100ms"),
        ("What does gate do?", None),
    ],
)
def test_what_is_said_below_a_name(question: str, expected: str | None) -> None:
    reply = said_of_name(question, [Passage(REFERENCE, context="The mill"), Passage(HELP)])
    assert (reply and reply.text) == expected


def test_what_is_said_below_several_lines_with_a_name() -> None:
    passages = [
        Passage("mill.open(gate)\n\nIt opens a gate.\n\n* speed {number} Default: 3", context="mill > mill.open(gate)"),
        Passage("barn.open(door)\n\nIt opens a door.\n\n* speed {number} Default: 4", context="barn > barn.open(door)"),
    ]
    for question, expected in (
        ("What does open() do?", "mill.open(gate): It opens a gate; barn.open(door): It opens a door"),
        ("What does barn.open() do?", "It opens a door."),
        ("What does open() do in barn?", "It opens a door."),
        ("What is the default speed?", "mill.open(gate): 3; barn.open(door): 4"),
    ):
        reply = said_of_name(question, passages)
        assert reply and reply.text == expected


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("When was the milk added?", "Milk\n\nAdded 200 g of sugar."),
        ("When was the bridge removed?", "Bridge\n\nRemoved in 12 days."),
        ("When was the team removed?", "Team\n\nRemoved:\n\n- Ada\n- Bo"),
        ("When was it added?", "It\n\nAdded: 3"),
        ("What does McDonald do?", "McDonald\n\nThank you for the mail."),
        ("What is the default color?", "color\n\nThe default is not red."),
    ],
)
def test_prose_is_no_manual(question: str, text: str) -> None:
    assert said_of_name(question, [Passage(text)]) is None


def test_a_passage_may_be_from_further_down_below_a_name() -> None:
    further = Passage("It may stick.\n\nReturns: the height. It may wait.", context="mill > mill.lift(sluice)")
    for question, expected in (("What does mill.lift return?", "the height"), ("What does mill.lift do?", None)):
        reply = said_of_name(question, [further])
        assert (reply and reply.text) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which version of mill dropped tar?", "2.1.0 (2024-03-01)"),
        ("in which mill release was the sluice introduced?", "2.1.0 (2024-03-01)"),
        ("When did the mill drop support for stone tools?", "2.0.0"),
        ("When was the mill's yard added?", "1.9 - May 2023"),
        ("When was wood removed?", None),  # of a chapter
        ("When was glass removed?", None),
        ("When was mill 2.1.0 released?", "2024-03-01"),
        ("When was mill v2.0.0 released?", "1 May 2023"),
        ("When was mill 2.0.1 released?", None),
        ("When was mill 1.8.0 released?", "2022-01-02"),
        ("When was mill 1.7.0 released?", None),  # it is only in the link of the next
        ("Which version of mill fixed the hoist?", "1.8.0 (2022-01-02)"),
        ("When was the hoist removed?", None),  # it will be
        ("When was --fast fixed?", None),
        ("When was --fast-start fixed?", "1.8.0 (2022-01-02)"),
        ("When was it fixed?", None),
        ("When was the lamp dropped?", None),  # no longer
        ("When did we drop the plan?", None),  # below a time or the number of a section
        ("When was mill 2.0 released?", None),
        ("When was barn 2.1.0 released?", None),
    ],
)
def test_versions_of_changes(question: str, expected: str | None) -> None:
    assert kind_of(question) == "change"
    passages = [
        Passage("2.3 Walls\n\n- Wood was removed."),
        Passage(
            "2.1.0 (2024-03-01)\n\n- Removed tar.\n- Add a sluice.\n\n2.0.0\n\nReleased 1 May 2023\n\n- Drop stone and\n  Iron tools.",
            context="mill",
        ),
        Passage("- A yard was added.", context="mill > Version 2 > 1.9 - May 2023"),
        Passage(
            "1.8.0 (https://a.b/compare/v1.7.0...v1.8.0) (2022-01-02)\n\n- Fixed the hoist. It will be removed.\n"
            "- The lamp is no longer dropped.\n- Fix `--fast-start`/`-f`.",
            context="mill",
        ),
        Passage("3.1\n\nWe drop the plan.\n\n10.30 to 11.15\n\nWe drop the plan.", context="Minutes"),
    ]
    reply = compose("change", question, passages, None)
    assert (reply and reply.text) == expected


def test_changes_below_what_was_done() -> None:
    passages = [
        Passage("Added\n\n- Oil.\n\nFixed\n\n- Tar leaks.\n\n2.0.0\n\n- Rye", context="mill > 2.1.0 > Added"),
        Passage("1.9.0\n\nRemoved\n\n- Hay.", context="mill > 1.9.0"),
    ]
    for question, expected in (
        ("When was oil added?", "2.1.0"),
        ("When was tar added?", None),
        ("When was the tar fixed?", "2.1.0"),
        ("When was rye added?", None),
        ("When was hay removed?", "1.9.0"),
        ("What was added in 2.1.0?", "Oil."),
        ("What was fixed in 2.1.0?", "Tar leaks."),
    ):
        reply = compose(kind_of(question), question, passages, None)
        assert (reply and reply.text) == expected


def test_changes_of_several_programs_are_told_apart() -> None:
    passages = [Passage(f"2.1.{at} (2024-01-0{at})\n\n- Add {what}.\n- Add hay.", context=program)
                for at, what, program in ((1, "oil", "mill"), (2, "tar", "barn"))]  # fmt: skip
    for question, expected in (
        ("Which version added hay?", "mill: 2.1.1 (2024-01-01); barn: 2.1.2 (2024-01-02)"),
        ("Which version of barn added hay?", "2.1.2 (2024-01-02)"),
        ("Which version added oil?", "2.1.1 (2024-01-01)"),
    ):
        reply = compose("change", question, passages, None)
        assert reply and reply.text == expected
    passages = [passage._replace(text=passage.text.replace("2.1.2", "2.1.1")) for passage in passages]
    reply = compose("list", "What was added in 2.1.1?", passages, None)
    assert reply and reply.text == "mill: Add oil, mill: Add hay, barn: Add tar and barn: Add hay"


def test_changes_of_a_version() -> None:
    passages = [
        Passage("- Fix the yard.\n- Wood has been added.\n\n## 2.0\n\n- Add rye.", place=2, context="mill > 2.1"),
        Passage("Changes from 2.1.9 to 2.2\n\n- Adds a lamp.\n- Address it.", place=3, context="mill"),
        Passage("2.1\n\n- Add a sluice\n  and a gate.\n- Fixed the roof.", place=1, context="mill > 2.1"),
    ]
    for question, expected in (
        ("What was added in mill 2.1?", "Add a sluice and a gate. and Wood has been added."),
        ("What was fixed in 2.1?", "Fixed the roof. and Fix the yard."),
        ("What was removed in mill 2.1?", None),
        ("What was fixed in barn 2.1?", None),
        ("What was added in mill 2.2?", "Adds a lamp."),
        ("What was added in mill 2.1.9?", None),  # from which it is
    ):
        reply = compose("list", question, passages, None)
        assert (reply and reply.text) == expected


def test_a_list_goes_on_in_the_next_chunk() -> None:
    texts = "Then:\n3. Wait.\n4. Go.", "# Starting the mill\n\n1. Open.\n2. Lift.", "3. Rest.", "5. Close."
    chunks = zip(texts, (2, 1, 2, 3), ("mill", "mill", "barn", "mill"), strict=True)
    passages = [Passage(text, name, place, "Starting the mill") for text, place, name in chunks]
    reply = compose("steps", "How do I start the mill?", passages, None)
    assert reply is not None
    assert reply.text == "1. Open. 2. Lift. 3. Wait. 4. Go. 5. Close."
    assert [item.passage for item in reply.items] == [1, 1, 0, 0, 3]
    step = compose("step", "What is step 4 of starting the mill?", passages, None)
    assert step is not None
    assert step.text == "Go."


def test_answers_from_several_passages() -> None:
    texts = "The quiz was won by Ada.", "The race was won by Bo.", "Nobody came."
    passages = [
        Passage(text, f"{at}.txt", at, "", f"2024-0{at + 1}-01", (len(text) - 4, len(text) - 1))
        for at, text in enumerate(texts)
    ]
    reply = compose("several", "Who won?", passages, 0)
    assert reply is not None
    assert [(item.text.strip(), item.passage) for item in reply.items] == [("Bo", 1), ("Ada", 0)]  # the newest first
    boats = [
        f"We own the boat {name}, built in {year}." for name, year in (("Vik", 1962), ("Old Moss", 1974), ("Sky", 1990))
    ]
    spans = [(16, 19), None, (11, 19)]  # of the last, "boat Sky", of which the reader is not sure
    passages = [
        Passage(text, f"{at}.txt", at, span=span, margin=-9.0 * (at > 1))
        for at, (text, span) in enumerate(zip(boats, spans, strict=True))
    ]
    reply = compose("several", "Which boats do we own?", [*passages, Passage("We own the mill Vik, of 1900.")], 0)
    assert reply is not None
    assert reply.text == "Vik, Old Moss and Sky"
    assert answer("Which of my notes mention the race?", *texts) == ("1.txt", 1)
    boats = [f"## {name}\n\n- length: 7 m\n- skipper: {skipper}" for name, skipper in (("Vik", "Ada"), ("Moss", "Bo"))]
    assert answer("Who are the skippers?", *boats) == ("Ada and Bo", 2)
    many = [f"## Boat {number}\n\n- length: 7 m\n- skipper: Ann {number}" for number in range(24)]
    assert str(answer("Who are the skippers?", *many)).count("Ann") == 24
    assert "; …" in str(answer("Who are the skippers?", *many))
    assert answer("race won", *texts) == ("The race was won by Bo.", 1)
    assert answer("race lost", *texts) is None
    assert search_text("Summarise the news about the race") == "the about the race"
    assert search_text("Give me the gist of the quick race") == " of the quick race".strip()
    assert search_text("What was decided on the main road, briefly") == "on the main road"
    assert search_text("Who won the race?") == "Who won the race?"


LESSONS = (
    "Lesson: 1; Teacher: Ada; Mon: Art; Tue: Latin",
    "Lesson: 2; Teacher: Bo; Mon: Art",
    "Lesson: 3; Teacher: Ada; Mon: Maths",
)


@pytest.mark.parametrize(
    ("question", "span", "expected"),
    [
        ("What does Ada teach on Monday?", "Art", "Art and Maths"),
        ("What does Ada teach on Tuesday?", "Latin", None),
        ("What does Bo teach on Monday?", "Art", None),
        ("Who teaches art?", "Ada", "Ada and Bo"),
        ("Which lesson is taught by Ada?", "1", "1 and 3"),
        ("Who teaches art first?", "Ada", None),
        ("Who teaches art in lesson 2?", "Ada", None),
        ("Who teaches?", "Ada", None),
    ],
)
def test_other_rows_with_all_that_is_asked(question: str, span: str, expected: str | None) -> None:
    places = [(text.index(span), text.index(span) + len(span)) if span in text else None for text in LESSONS]
    rows = [Passage(text, f"plan.csv#row {at}", at, "", None, places[at]) for at, text in enumerate(LESSONS)]
    reply = cells_alike(question, rows, next(at for at, place in enumerate(places) if place))
    assert (reply and reply.text) == expected


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("How many defects were there?", "Flat\n\nDefects:\n\n- a tap\n- a window", "2"),
        ("How many steps has the cake?", "# Cake\n\nItems:\n- egg\n- salt\n\nSteps:\n1. Mix.\n2. Wait.\n3. Bake.", "3"),
        ("How many eggs has the cake?", "# Cake\n\nItems:\n- egg\n- salt", None),
        ("How many hours is it open?", "Opening hours:\n- Monday 9-5\n- Tuesday 9-5", None),
        ("How many members are there?", "Members pay by:\n- card\n- cash", None),
        ("How many guests may I bring?", "Rules for guests:\n- no dogs\n- no noise", None),
        ("How many members are there?", "Club\n\nThe old members of the club:\n- Ann\n- Bo", "2"),
        ("How many soups are there?", "# Leek soup\n\n- leek\n- salt", None),
        ("How many defects were there?", f"Defects:\n- a tap\n- a window{' and so on' * 50}", None),  # or more
    ],
)  # fmt: skip
def test_entries_of_a_list_are_counted(question: str, text: str, expected: str | None) -> None:
    reply = length_of_list(question, [Passage(text)])
    assert (reply and reply.text) == expected


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("where are the logs", "How is it? Good. Where are the logs? In X. There are two. Why? So.", ("In X. There are two.", True)),
        ("Where are the logs?", "Q: Where are the logs?\nA: In X.\n\nMore.", ("In X.", True)),
        ("Where are the logs?", "## Where are the logs?\n\nIn X.\n\nMore.", ("In X.", True)),
        ("Where are the logs?", "Where are the logs?\n\nAsk with:\n\nmill log\n\nMore.", ("Ask with: mill log", True)),
        ("Who sings?", "[18:05] Bo: ok. who sings?\n[18:06] Cy: Ada does\n[18:07] Bo: good", ("[18:06] Cy: Ada does", False)),
        ("Who sings?", "Who sings? Who plays? Bo.", None),
        ("Who sings?", "I know who sings.", None),
        ("Who sings?", "Who sings? Please tell me.", None),
        ("Who sings?", "To do\n- Who sings?\n- Bo calls Ann.", None),
    ],
)  # fmt: skip
def test_a_question_that_is_in_the_text(question: str, text: str, expected: tuple[str, bool] | None) -> None:
    reply = asked_there(question, [Passage(text)])
    assert (reply and (reply.text, reply.is_certain)) == expected


def test_the_same_of_two_documents() -> None:
    contracts = (
        "This is ours. Corrections are free here.",
        "This is new. Corrections cost 60 euros.",
        "Corrections of proofs are slow.",
    )
    expected = "Corrections are free here. Corrections cost 60 euros."
    assert answer("compare corrections in the two contracts", *contracts, context="contracts") == (expected, 2)
    assert answer("compare repairs in the two contracts", *contracts, context="contracts") is None


def test_things_that_their_documents_name() -> None:
    passages = [
        Passage("It is 330 metres tall.", context="eiffel tower"),
        Passage("It is 96 metres tall.", context="big ben"),
    ]
    reply = compose("comparison", "Which is taller, the Eiffel Tower or Big Ben?", passages, None)
    assert reply is not None
    assert reply.text == "the Eiffel Tower"
    both = [Passage("It is 330 metres tall.", context="eiffel tower and big ben")]
    assert compose("comparison", "Which is taller, the Eiffel Tower or Big Ben?", both, None) is None


CHECKOUT = """apiVersion: apps/v1
spec:
  replicas: 6
  containers:
    - name: checkout
      terminationGracePeriodSeconds: 45
      env:
        - name: POOL_SIZE
          value: "24"
      resources:
        requests:
          memory: 512Mi
        limits:
          memory: "768Mi"  # was 512Mi
"""
WEB = """server {
    gzip on;
    location /billing/ {
        proxy_read_timeout 90s;
    }
    location /checkout/ {
        proxy_read_timeout 15s;
        proxy_buffering off;
    }
}
"""
WORKER = """[Service]
# Where it listens for health checks
HEALTH_PORT=9185
RestartSec = 7
"""
SSH = "PasswordAuthentication no\nPermitRootLogin no\nMaxAuthTries 4\n"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("memory limit of the checkout pod in production", "768Mi"),
        ("What is the memory request of checkout?", "512Mi"),
        ("How many replicas does checkout have?", "6"),
        ("termination grace period of checkout", "45"),
        ("What is the pool size of checkout?", "24"),
        ("memory of checkout", None),  # two of them
        ("memory limit of billing", None),
        ("read timeout of billing", "90s"),
        ("read timeout", None),
        ("RestartSec of the worker", "7"),
        ("Where does the worker listen for health checks?", None),  # no word of the name: HEALTH_PORT is not "where"
        ("on which port does the worker listen for health checks", "9185"),
        ("max auth tries", "4"),
    ],
)
def test_settings(question: str, expected: str | None) -> None:
    contexts = {
        "production > checkout": CHECKOUT,
        "web": WEB,
        "worker": WORKER,
        "sshd": SSH,
        "worker OLD": "RestartSec=9",
    }
    reply = setting(question, [Passage(text, context=context) for context, text in contexts.items()])
    assert (reply and reply.text) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("is password authentication enabled", "No"),
        ("Is root login permitted?", "No"),
        ("is gzip on", "Yes"),
        ("isn't gzip on", None),
        ("is gzip off", None),
        ("is proxy buffering on", None),  # only below /checkout/
        ("is proxy buffering on for checkout", "No"),
        ("is authentication enabled", None),  # by password, or any
    ],
)
def test_states(question: str, expected: str | None) -> None:
    reply = setting(question, [Passage(WEB), Passage(SSH)], is_state=True)
    assert (reply and reply.text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Severity: SEV2\nIncident commander: Ravi Menon\n\nCheckout took up to 19 seconds after the release.\nNobody saw it.",
        "Ravi: yes\nMei: I can do it on Monday, if Ravi is there.\nRavi: fine, the timeout is too short anyway.",
        "Replicas: we need four of them.\n\nTimeout: nobody knows.",
    ],
)
def test_prose_has_no_settings(text: str) -> None:
    assert not [*settings_in(text)]


def test_a_setting_is_not_that_of_another_file() -> None:
    staging = Passage("spec:\n  replicas: 1", "checkout.yaml", context="staging > checkout")
    production = Passage("spec:\n  replicas: 3", "billing.yaml", context="production > billing")
    assert is_of_another_file("How many replicas has billing in staging?", staging, [staging, production])
    assert not is_of_another_file("How many replicas has checkout in staging?", staging, [staging, production])
    assert not is_of_another_file("How many replicas has billing?", staging, [staging])


ROTA = [
    "Event: On call: Ada (backup: Bo); Start: 4 May 2026, 09:00 UTC; End: 11 May 2026, 09:00 UTC",
    "Event: On call: Bo (backup: Ada); Start: 11 May 2026, 09:00 UTC; End: 18 May 2026, 09:00 UTC",
    "Event: Roof; Start: 12 May 2026, 05:00 UTC; End: 12 May 2026, 07:00 UTC",
    "From: 2026-05-11; To: 2026-05-17; Warden: Cy; Porter: Di",
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who is on call on 12 May?", "On call: Bo (backup: Ada)"),
        ("who was on call on May 5, 2026", "On call: Ada (backup: Bo)"),
        ("who is on call on 11 May", "On call: Ada (backup: Bo) and On call: Bo (backup: Ada)"),
        ("who is on call on 12 May 2025", None),
        ("who is on call on 31 May", None),
        ("who is on leave on 12 May", None),
        ("who is the warden on 12 May", "Cy"),
    ],
)
def test_who_is_so_on_a_day(question: str, expected: str | None) -> None:
    reply = during(question, [Passage(row) for row in ROTA])
    assert (reply and reply.text) == expected


def test_questions_about_a_day() -> None:
    assert names_day("who is on call on 12 May")
    assert not names_day("who is on call in May")
    assert not names_day("when is the roof mended, on 12 May?")

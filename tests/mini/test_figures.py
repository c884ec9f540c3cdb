"""Figures that are worked out from the rows of tables."""

import pytest

from mbc_engine.mini.kinds.figures import is_of_one_row, worked_out
from mbc_engine.mini.kinds.passages import Passage

STATEMENT = (
    "Date: 02.04.2024; Name: Lane Homes; Reference: rent April; Amount EUR: -1.410,00; Balance EUR: 2590,00",
    "Date: 03.04.2024; Name: Fibre; Reference: internet; Amount EUR: -39,99; Balance EUR: 2550,01",
    "Date: 11.04.2024; Name: Dental; Reference: 2024-009; Amount EUR: 1223,85; Balance EUR: 3773,86",
    "Date: 03.05.2024; Name: Fibre; Reference: internet; Amount EUR: -39,99; Balance EUR: 3733,87",
)
PULSE = (
    "date: 2024-02-13; place: home; pulse: 104; weight: 61.5 kg",
    "date: 2024-03-19; place: ward; pulse: 74; weight: 61 kg",
    "date: 2024-04-23; place: home; pulse: 50; weight: -",
    "date: 2024-04-30; place: home; pulse: 57; weight: 60.4 kg",
)
PRICES = (
    "Service: Logo; Price £: 1,150; Hours: 20",
    "Service: Flyer; Price £: 260; Hours: 4",
    "Service: Icon; Price £: 38.50; Hours: 4",
    "Service: Banner; Price £: on request; Hours: 9",
)
MEMBERS = (
    "Member: Ada Holm; Town: Vik; Fee paid: yes",
    "Member: Bo Dahl; Town: Moss; Fee paid: no",
    "Member: Cy Lund; Town: Vik; Fee paid: no",
)
SALES = (
    "Date: 01/04/2025; Day: Tue; Customers: 67; Food £: 234.15; Total £: 523.30",
    "Date: 19/04/2025; Day: Sat; Customers: 142; Food £: 639.00; Total £: 1,491.65",
    "Date: 02/05/2025; Day: Fri; Customers: 88; Food £: 255.50; Total £: 600.05",
)
PAYMENTS = (
    "Date: 01 Apr 2025; Description: BALANCE BROUGHT FORWARD; Balance: 2,612.77",
    "Date: 01 Apr 2025; Description: SO RENT; Money out: 1,150.00; Balance: 1,462.77",
    "Date: 07 Apr 2025; Description: CARD SALES; Money in: 980.20; Balance: 2,442.97",
    "Date: 30 Apr 2025; Description: WAGES LIND; Money out: 870.10; Balance: 1,572.87",
    "Date: 30 Apr 2025; Description: WAGES BRAY; Money out: 902.00; Balance: 670.87",
)
SUBSCRIPTIONS = (
    "Name: Ada; Fee due: 48.00; Paid: 48.00; Date paid: 2025-05-25",
    "Name: Bo; Fee due: 95.00; Date paid: -",
    "Name: Cy; Fee due: 48.00; Paid: 0; Date paid: -",
)
KIT = (
    "Player: Jo; Shirt no: 2; Shirt size: S; Shorts size: M; Price: 26.50",
    "Player: Lu; Shirt no: 3; Shirt size: M; Shorts size: S; Price: 26.50",
    "Player: Ann; Shirt no: 4; Shirt size: S; Shorts size: S; Price: 26.50",
)
SOIL = (
    "LabNo: NL1; SampleID: SO-01; OrganicMatter_pct: 18.0",
    "LabNo: NL2; SampleID: SO-02; OrganicMatter_pct: 20.8",
)
ELECTRICITY = ("Month: 2024-01; Price per kWh: 0.31; Cost: 96.10", "Month: 2024-02; Price per kWh: 0.33; Cost: 86.80")
LEAGUE = (
    "Rank: 1; Team: Vik; Points: 14; Board points: 41.5",
    "Rank: 2; Team: Moss; Points: 12; Board points: 37",
)
WITH_TOTAL = ("Item: rope; Cost: 4", "Item: lamp; Cost: 5", "Item: Total; Cost: 9")


@pytest.mark.parametrize(
    ("table", "question", "answer", "rows"),
    [
        (STATEMENT, "How much did I spend on internet?", "79,98 EUR", [1, 3]),
        (STATEMENT, "how much did we spend in April 2024", "1449,99 EUR", [0, 1]),  # not what came in
        (STATEMENT, "How much did we earn in total?", None, []),  # one figure is no total
        (STATEMENT, "What was the highest balance in April?", "3773,86 EUR", [2]),
        (STATEMENT, "how much did I spend on lunch", None, []),
        (STATEMENT, "How much was the internet?", None, []),  # of which time?
        (PULSE, "What is the average pulse at home?", "70.33", [0, 2, 3]),
        (PULSE, "what was my average weight", "60.97 kg", [0, 1, 3]),
        (PULSE, "When was the pulse at its lowest?", "2024-04-23", [2]),
        (ELECTRICITY, "What is the total price?", None, []),  # no sum of rates
        (PULSE, "What was the highest pulse in March?", None, []),  # nothing to compare
        (PULSE, "What was the highest pulse?", "104", [0]),
        (PULSE, "Where was the pulse the highest?", "2024-02-13", [0]),
        (PULSE, "At which place was the pulse lowest?", None, []),  # of all figures of a place?
        (PULSE, "What was the highest pulse of Ada?", None, []),
        (PRICES, "Which service needs the fewest hours?", None, []),  # "needs" is in no row
        (PRICES, "Which service has the fewest hours?", "Flyer and Icon", [1, 2]),
        (PRICES, "Which service is the cheapest?", None, []),  # one price is not known
        (PRICES, "What is the total of the hours?", "37", [0, 1, 2, 3]),
        (PRICES[:3], "Which service is the most expensive?", "Logo", [0]),
        (PRICES[:3], "what is the average price", "£482.83", [0, 1, 2]),
        (SALES, "what was our best day in april", "19/04/2025", [1]),
        (SALES, "How much did we take altogether in April?", "£2014.95", [0, 1]),
        (SALES, "on average how many customers did we have per day in april", "104.5", [0, 1]),
        ((*SALES, "Date: ; Day: Fri; Customers: 88; Food £: 255.50; Total £: 600.05"), "total food in April", None, []),
        (SALES[:1] * 2 + SALES[1:], "what is the average of customers per day", None, []),  # two rows of one day
        (SALES[:1] + SALES[2:], "What was our best day in April?", None, []),  # or in January, on the fourth
        (PAYMENTS, "total wages paid out in april?", "1772.10", [3, 4]),
        (PAYMENTS, "how much have we spent on wages", "1772.10", [3, 4]),
        (PAYMENTS, "how much have we spent on wages before may", None, []),  # nor only in May
        (PAYMENTS, "how much have we spent on wages since april", "1772.10", [3, 4]),
        (SALES, "How many customers did we have since May 2025?", None, []),  # one row is no total
        (SALES, "what did we take in all since 19 April 2025", "£2091.70", [1, 2]),
        (SOIL, "Which soil sample has the most organic matter?", "SO-02", [1]),
        (SOIL, "how deep is the sample", None, []),
        (PAYMENTS, "When was the balance at its lowest?", "30 Apr 2025", [4]),
        (KIT, "How many players have shirt size S?", "2", [0, 2]),
        (KIT, "how many size S shirts are there", None, []),  # numbers of shirts are no quantities
        (SUBSCRIPTIONS, "how many names havent paid anything yet this year", "2", [1, 2]),
        (SUBSCRIPTIONS, "How many names have not paid?", "2", [1, 2]),
        (MEMBERS, "How many members are from Vik?", "2", [0, 2]),
        (MEMBERS, "how many people have paid", None, []),  # which people?
        (MEMBERS, "How many from Vik have paid?", "1", [0]),
        (STATEMENT, "How many rents?", None, []),  # 1, or 1410 euros
        (MEMBERS, "how many members have not paid the fee", "2", [1, 2]),
        (MEMBERS, "How many unpaid members?", "2", [1, 2]),
        (MEMBERS, "How many members play chess?", None, []),
        (MEMBERS, "How many towns are there?", None, []),
        (SALES, "How many days are there?", "3", [0, 1, 2]),
        (PRICES, "How many hours are a flyer and an icon?", None, []),  # no row has both
        (PRICES, "How many hours are there in all?", "37", [0, 1, 2, 3]),
        # What is not understood is left to the reader.
        *(
            (MEMBERS, question, None, [])
            for question in (
                "how many members are not from Vik",
                "How many members are from Vik or Moss?",
                "how many fees are there",
                "Do I have to pay the most?",
                "how many members have yet to pay the fee",
            )
        ),
        *(
            (STATEMENT, question, None, [])
            for question in (
                "How much did I spend on internet in April or May?",
                "how much did we spend per month",
                "total balance",
                "what is the highest and lowest balance",
                "how much did we spend on 3 April",
                "How much did I spend last month?",
                "how much did we spend by April 2024",
                "highest amount in April and 2023",
            )
        ),
        (STATEMENT, "what was our largest payment", "Lane Homes", [0]),
        (("Boat: Vik; Cost: 12.500", "Boat: Moss; Cost: 980"), "Which boat has the highest cost?", None, []),  # or 12.5
        (("Boat: Vik; Weight: 1,250", "Boat: Moss; Weight: 0,125"), "total weight", "1,375", [0, 1]),
        (("Invoice: 1001; Name: Ann", "Invoice: 1002; Name: Bo"), "how many invoices are there in all", None, []),
        (("Name: x; No: 1; Pay: 5", "Name: y; No: 2; Pay: 5", "Name: z; No: 3; Pay: 5"), "how many no", None, []),
        (("Event: Gala; Guests: about 120", "Event: Ball; Guests: 80"), "how many guests at the gala", None, []),
        (("Name: Ann; Hours: 8", "Name: Bob; Hours: 7", "Name: Bob; Hours: 7"), "who has the most hours", None, []),
        (("Item: x; Cost: 4", "Item: y; Cost: 5", "Summe: z; Cost: 9"), "total cost", None, []),
        (("Item: x; Cost: 4", "Item: y; Cost: 5", "Item: Summe; Cost: 9"), "What is the highest cost?", "5", [1]),
        (("Item: x; Cost: 4", "oil 7", "Item: y; Cost: 5"), "total cost", None, []),
        (("Item: x; Cost: 4; Cost: 9", "Item: y; Cost: 5"), "total cost", None, []),
        (("Item: x; Cost: 4; Currency: USD", "Item: y; Cost: 5; Currency: EUR"), "total cost", None, []),
        (("Item: x; Price: 4; Quantity: 3", "Item: y; Price: 5; Quantity: 1"), "total price", None, []),
        (("Run: a; Time: 4", "Run: b; Time: 5"), "what was the best time", None, []),
        (
            (
                "Id: a; Paid on: 2024-06-01; Due: 2024-05-01; Fee: 4",
                "Id: b; Paid on: 2024-06-02; Due: 2024-06-01; Fee: 5",
            ),
            "total of the fees in June",
            None,
            [],
        ),
        (LEAGUE, "Which team has the most points?", "Vik", [0]),  # not board points
        (LEAGUE, "Who has the fewest board points?", "Moss", [1]),  # a rank is no name
        (LEAGUE, "How many teams are there?", "2", [0, 1]),
        (LEAGUE, "Who has been on the board longest?", None, []),
        (
            ("Item: sill; Amount: 2; Price: 310 euros", "Item: floor; Amount: 8; Price: 960 euros"),
            "What is the most expensive item?",
            "floor",
            [1],
        ),
        (WITH_TOTAL, "What is the total cost?", None, []),  # it is written there
        (WITH_TOTAL, "What is the average cost?", "4.5", [0, 1]),
        (("Item: rope; Size: 30 %", "Item: lamp; Size: 5 cm"), "Which item has the largest size?", None, []),
        (("Item: rope; Size: 1.2.2024", "Item: lamp; Size: 5.2.2024"), "Which item has the largest size?", None, []),
        (("Item: rope; Size: 1,5", "Item: lamp; Size: 1.5"), "Which item has the largest size?", None, []),
        (("The mill is 30 metres long.",), "What is the largest mill?", None, []),
        ((), "What is the largest mill?", None, []),
    ],
)
def test_figures(table: tuple[str, ...], question: str, answer: str | None, rows: list[int]) -> None:
    passages = [Passage(text, "soil log.csv", at) for at, text in enumerate(table)]
    reply = worked_out(question, passages)
    assert (reply and reply.text, [item.passage for item in reply.items] if reply else []) == (answer, rows)
    assert reply is None or reply.is_certain


@pytest.mark.parametrize(("name", "answer"), [("boats 2026.csv", "Moss"), ("boats 2025.csv", None)])
def test_a_year_that_the_whole_table_is_of(name: str, answer: str | None) -> None:
    passages = [Passage(text, name, at) for at, text in enumerate(("Boat: Vik; Cost: 12", "Boat: Moss; Cost: 98"))]
    reply = worked_out("Which boat had the highest cost in 2026?", passages)
    assert (reply and reply.text) == answer


@pytest.mark.parametrize(
    ("question", "row", "is_part"),
    [
        ("How many hours did they work in all?", "Name: Ann; Hours: 7", True),
        ("How many hours did Ann work in all?", "Name: Ann; Hours: 7", False),
        ("How many hours did they work in all?", "Name: Ann; Total hours: 7", False),
        ("How many hours did they work in all?", "Name: Sum; Hours: 7", False),
        ("How many hours did they work?", "Name: Ann; Hours: 7", False),
        ("How many hours did they work in all?", "They worked 7 hours in all.", False),
    ],
)
def test_a_total_is_not_one_row(question: str, row: str, is_part: bool) -> None:
    assert is_of_one_row(question, row, [row, row]) == is_part
    assert not is_of_one_row(question, row, [row])

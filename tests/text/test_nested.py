"""JSON, notebooks, settings and XML: values with their paths, chats, and rows."""

import base64
import json

import pytest

from tests.text.conftest import named_texts, sections


def test_array_of_objects(read):
    rows = [{"id": "a", "text": "The osprey nests."}, {"id": "b", "name": "Owl", "at": [{"place": "belfry"}]}]
    assert named_texts(read("a.json", json.dumps(rows))) == [
        ("a", "The osprey nests."),
        ("b", "id: b; name: Owl; at.place: belfry"),
    ]


def test_object_with_tables(read):
    pumps = [{"id": 1, "bar": 4.2}, {"id": 2, "bar": True}]
    mill = {"name": "Mill", "owner": {"city": "Oslo"}, "tags": ["a", "b"], "in": {"pumps": pumps}}
    whole, first, second = read("a.json", json.dumps(mill))
    assert named_texts([whole, first, second]) == [
        ("fields", "name: Mill\n\nowner.city: Oslo\n\ntags: a, b"),
        ("in.pumps, row 1", "id: 1; bar: 4.2"),
        ("in.pumps, row 2", "id: 2; bar: true"),
    ]
    assert (whole.title, sections(whole)) == ("Mill", [("owner.city: Oslo", "owner"), ("tags: a, b", "tags")])
    assert [section.context for section in first.sections] == ["Mill > in.pumps"]


@pytest.mark.parametrize(
    ("value", "text", "date"),
    [
        ({"messages": [{"role": "user", "content": "When?"}, {"role": "assistant", "content": [{"type": "text", "text": "At 6:40."}]}]}, "user: When?\n\nassistant: At 6:40.", ""),
        ({"name": "Club", "messages": [{"from": "Olga", "date": "2024-03-01T10:22:33", "text": ["See ", {"type": "link", "text": "x.org"}]}]}, "name: Club\nOlga, 2024-03-01 10:22: See x.org", "2024-03-01"),
        ([{"user": "U1", "ts": "1709287353.000100", "text": "Lunch, <@U2>? <@U3>?", "user_profile": {"real_name": "Ada"}}, {"user": "U2", "ts": "1709287400.1", "text": "Yes.", "user_profile": {"display_name": "Bo"}}], "Ada, 2024-03-01 10:02: Lunch, Bo? <@U3>?\n\nBo, 2024-03-01 10:03: Yes.", "2024-03-01"),
        ([{"title": "Eggs", "create_time": 1709287353.5, "current_node": "c", "mapping": {"a": {"parent": None, "message": None}, "b": {"parent": "a", "message": {"author": {"role": "user"}, "content": {"parts": ["How", " long?"]}}}, "c": {"parent": "b", "message": {"author": {"role": "assistant"}, "content": {"parts": ["9 minutes."]}}}, "d": {"parent": "b", "message": {"author": {"role": "assistant"}, "content": {"parts": ["An answer given up."]}}}}}], "title: Eggs; date: 2024-03-01\n\nuser: How long?\n\nassistant: 9 minutes.", "2024-03-01"),
        ({"messages": [{"sender_name": "Jo\u00c3\u00ab", "content": "Caf\u00c3\u00a9 \u00f0\u009f\u0098\u0080"}]}, "Joë: Café \U0001f600", ""),
        ({"messages": [{"creator": {"name": "Ada"}, "created_date": "Friday, March 1, 2024 at 8:00 AM UTC", "text": "Hi."}]}, "Ada, Friday, March 1, 2024 at 8:00 AM UTC: Hi.", "2024-03-01"),
        ([{"user": "U1", "ts": "1709287353.0", "text": "Lunch &amp; <https://x.org|talk> in <#C1|ops>"}, {"user": "U1", "ts": "1709287353.1", "text": "<https://y.org>"}, {"bot_id": "B1", "ts": "1709287400.1", "text": "Built."}], "U1, 2024-03-01 10:02: Lunch & talk (https://x.org) in #ops\n\nU1, 2024-03-01 10:02: https://y.org\n\n2024-03-01 10:03: Built.", "2024-03-01"),
        ({"messages": [{"sender_name": "Bo", "timestamp_ms": 1709387400000, "content": "Yes."}, {"sender_name": "Bo", "timestamp_ms": 1709387300000, "photos": [{"uri": "a"}]}, {"sender_name": "Bo", "timestamp_ms": 1709287399000}, {"sender_name": "Ada", "timestamp_ms": 1709287353000, "content": "Hi."}, {"sender_name": "Bo", "timestamp_ms": 1709287352000}]}, "Ada, 2024-03-01 10:02: Hi.\n\nBo, 2024-03-02 13:50: Yes.", "2024-03-02"),
        ({"conversations": [{"author": {"name": "Ada"}, "timestamp_ms": 1709287353000, "value": "Hi."}]}, "Ada, 2024-03-01 10:02: Hi.", "2024-03-01"),
    ],
)  # fmt: skip
def test_chats(read_one, value, text, date):
    document = read_one("a.json", json.dumps(value))
    assert document.text == text
    assert not date or document.date == date
    assert all(document.text[section.start - 1] == "\n" for section in document.sections if section.start)


def test_several_chats_are_named_and_dated(read):
    message = {"from": "Ada", "date": "2024-03-01T10:22:33", "text": "Hi."}
    chat = {"type": "personal_chat", "name": "Ada", "messages": [message]}
    _, ada, bo = read("a.json", json.dumps({"about": "Chats", "list": [chat, {**chat, "name": "Bo"}]}))
    assert [(document.title, document.date) for document in (ada, bo)] == [("Ada", "2024-03-01"), ("Bo", "2024-03-01")]


def test_lists_of_tasks(read, read_one):
    tasks = [{"text": "Rye", "textHtml": "<p>Rye</p>", "isChecked": True}, {"text": "Oats", "isChecked": False}]
    note = {"title": "Buy", "body": "Soon", "bodyHtml": "<p>Soon</p>", "listContent": tasks}
    assert read_one("a.json", json.dumps(note)).text == "title: Buy; body: Soon\n- [x] Rye\n- [ ] Oats"
    items = [{"id": "i1", "name": "Rye", "state": "complete"}, {"id": "i2", "name": "Oats", "state": "incomplete"}]
    card = read_one("a.json", json.dumps([{"name": "Buy", "checkItems": items}]))
    assert card.text == "name: Buy\n\n- [x] Rye\n- [ ] Oats"
    told = [{"title": "Rye", "done": True, "due": "May"}, {"title": "Oats", "done": False, "due": "June"}]
    assert len(read("a.json", json.dumps({"tasks": told}))) == 2


def test_outlines_and_bookmarks(read_one):
    """Items below those that they belong to, without what only programs need."""
    deep = {"string": "in\nMay", "uid": "b", "edit-time": 1709287353000, "price": 7}
    beds = [{"string": "Leeks", "uid": "a", "children": [deep]}, {"string": "Beans", ":user/id": "u"}]
    page = read_one("a.json", json.dumps([{"title": "Beds", "children": beds}]))
    assert page.text == "title: Beds\n\n- Leeks\n  - in May (price: 7)\n- Beans"
    rye = {"name": "Rye", "type": "url", "url": "https://x.org", "date_added": "132174"}
    links = [rye, {"name": "Ale", "url": "https://y.org"}]
    marks = read_one("Bookmarks", json.dumps({"roots": {"bar": {"children": links, "name": "Bar"}}}))
    assert marks.text == "roots.bar.name: Bar\n- Rye: https://x.org\n- Ale: https://y.org"


def test_ids_of_other_objects_are_their_names(read):
    board = {
        "lists": [{"id": "5f0c00000001", "name": "Doing"}, {"id": "5f0c00000002", "name": "Done"}],
        "cards": [{"id": "5f0c00000003", "name": "Tile", "idList": "5f0c00000002", "idMembers": ["5f0c00000009"]}] * 2,
    }
    assert named_texts(read("a.json", json.dumps(board)))[-1] == (
        "cards, row 2", "id: 5f0c00000003; name: Tile; idList: Done; idMembers: 5f0c00000009"
    )  # fmt: skip


def test_script_of_an_archive(read_one):
    tweet = {"tweet": {"id": "9", "created_at": "Sat Dec 03 10:05:16 +0000 2022", "full_text": "Salt &amp; wind"}}
    document = read_one("tweets.js", f"window.YTD.tweets.part0 = {json.dumps([tweet])}")
    created, text = "tweet.created_at: Sat Dec 03 10:05:16 +0000 2022", "tweet.full_text: Salt & wind"
    assert document.text == f"tweet.id: 9; {created}; {text}"
    assert document.date == "2022-12-03"


@pytest.mark.parametrize(
    "said",
    [{"endTime": "2024-03-01 08:00"}, {"creationDate": "2024-03-01T08:00:00Z", "birthDate": "1980-01-01"}, {"ts": 1709287353}, {"title": "a", "time": "2024-03-01T08:00:00Z"}, {"dateAdded": "2024-03-01", "date": ""}, {"created_on": "soon", "lastModified": "2024-03-01"}],
)  # fmt: skip
def test_dates_of_objects(read_one, said):
    assert read_one("a.json", json.dumps([said])).date == "2024-03-01"


def test_mails_are_no_chat(read):
    mails = [{"from": "Ada", "subject": "Boat", "text": "Sold."}, {"from": "Bo", "subject": "Tyres", "text": "410."}]
    assert named_texts(read("a.json", json.dumps(mails))) == [
        ("row 1", "from: Ada; subject: Boat\n\nSold."),
        ("row 2", "from: Bo; subject: Tyres\n\n410."),
    ]


DRAWN = f"![](data:image/png;base64,{base64.b64encode(bytes(range(256))).decode()})"


def test_notebook(read_one):
    picture = {"output_type": "display_data", "data": {"image/png": "", "text/plain": ["<Figure>"]}}
    cells = [
        {"cell_type": "markdown", "source": ["# Training\n", "\n", f"The batch size is 384.{DRAWN}"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"text": ["\x1b[31m1\x1b[0m\n"]}, picture]},
    ]
    document = read_one("a.ipynb", json.dumps({"cells": cells, "nbformat": 4}))
    assert document.text == "# Training\n\nThe batch size is 384.![]()\n\nprint(1)\n\n1\n\n<Figure>"
    assert (document.title, document.losses) == ("Training", ("2 pictures",))


def test_yaml(read_one):
    written = "# The mill\nretries: 7\nserver:\n  host: mill.example\n  ports:\n    - 80\nusers:\n  - name: Ada\n"
    document = read_one("a.yaml", written)
    assert document.text == written
    assert sections(document) == [
        ("host: mill.example", "server"),
        ("- 80", "server > ports"),
        ("users:", ""),
        ("- name: Ada", "users"),
    ]


def test_ini(read_one):
    document = read_one("a.toml", 'title = "x"\n[server.db]\nhost = "h"\n')
    assert sections(document) == [("[server.db]", "server.db")]


def test_xml(read):
    book = '<book id="b{0}"><title>{1}</title><price cur="EUR">{0}</price></book>'
    books = book.format(0, "Rye") + book.format(1, "Oat")
    page = f'<?xml version="1.0"?><!DOCTYPE c [<!ENTITY e SYSTEM "file:///etc/passwd">]><c name="Mill">{books}<note>See <b>page</b> 4&e;.</note></c>'
    assert named_texts(read("a.xml", page)) == [
        ("fields", "name: Mill; note: See page 4&e;."),
        ("book, row 1", "id: b0; title: Rye; price.cur: EUR; price: 0"),
        ("book, row 2", "id: b1; title: Oat; price.cur: EUR; price: 1"),
    ]


def test_notes_and_feeds(read):
    file = "QUJD" * 19 + "\n" + "QUJD" * 40
    items = (
        "<item><title>Jam</title><body>&lt;p&gt;3 kg &lt;b&gt;of&lt;/b&gt; plums&lt;/p&gt;</body>"
        f"<created>20210901T080000Z</created><data>{file}</data></item><item><title>b</title><n>4 &lt; 5</n></item>"
    )
    _, jam, other = read("a.enex", f'<?xml version="1.0"?><r v="1">{items}</r>')
    assert jam.text == "title: Jam; created: 2021-09-01 08:00\n\n3 kg of plums"
    assert (jam.date, jam.losses, other.text) == ("2021-09-01", ("1 embedded file",), "title: b; n: 4 < 5")
    numbers = {"userEditedTimestampUsec": 1709282345678000, "candidate_id": 1709282345, "at": "1.5, 2 " * 99}
    (wifi,) = read("a.json", json.dumps([{"title": "Wifi", **numbers, "html": "a<br>b"}]))
    assert wifi.text == "title: Wifi; userEditedTimestampUsec: 2024-03-01 08:39; candidate_id: 1709282345\n\nhtml: a\nb"
    assert (wifi.date, wifi.losses) == ("2024-03-01", ("1 number list",))


@pytest.mark.parametrize(
    "text",
    [
        "return '<div>' + x + '</div>';", "if a<b and c>d: see </a>", "Vec<i32> and <b>more</b>",
        "12 \u00c5\u00b2", "CAF\u00c9\u00a0: 12",
    ],
)  # fmt: skip
def test_strings_that_only_seem_markup_or_garbled_stay(read_one, text):
    assert read_one("a.json", json.dumps({"uptime": 1709282345, "said": text})).text.endswith(f"said: {text}")


def test_markup_and_garbled_strings_are_read_as_they_are_seen(read_one):
    said = {"uptime": 1709282345, "a": "See <a href='x'>this</a> & that", "b": "Bj\u00c3\u00b8rn"}
    assert read_one("a.json", json.dumps(said)).text == "uptime: 1709282345; a: See this & that; b: Bj\u00f8rn"


def test_other_strings_of_a_file_tell_what_is_garbled(read_one):
    pair = {"a": "Bj\u00c3\u00b8rn", "b": "Bj\u00f8rn"}
    assert read_one("a.json", json.dumps(pair)).text == "a: Bj\u00c3\u00b8rn; b: Bj\u00f8rn"


def test_lines_of_json_are_read_as_they_are(read_one):
    for text in ("<p>a</p>", "Bj\u00c3\u00b8rn", "x" * 300):
        assert read_one("a.jsonl", json.dumps({"id": "1", "text": text})).text == text


def test_long_lists_of_numbers(read_one):
    row = {"path": [[1.5, n] for n in range(101)], "point": [1.5, 2], "deep": [[[[1]] * 101]]}
    document = read_one("a.json", json.dumps(row))
    assert (document.text, document.losses) == ("point: 1.5, 2", ("2 number lists",))


def test_points_of_a_track_are_counted(read_one):
    track = "<trk><name>Day 1</name><trkseg><trkpt lat='1'/><trkpt lat='2'><ele>4</ele></trkpt></trkseg></trk>"
    assert read_one("a.gpx", f"<gpx>{track}</gpx>").text == "trk.name: Day 1; trk.trkseg.points: 2"
    points = "<trkpt lat='52' lon='13'><time>2021-05-08T07:12:44Z</time></trkpt><trkpt lat='52.09' lon='13'><time>2021-05-08T08:42:44Z</time></trkpt>"
    head = "<metadata><time>2021-05-08T07:12:44Z</time></metadata>"
    document = read_one("a.gpx", f"<gpx>{head}<trk><trkseg>{points}</trkseg></trk></gpx>")
    assert document.text.endswith("trkseg.duration: 1:30:00; trk.trkseg.distance: 10.0 km")
    assert document.date == "2021-05-08"
    lap = "<Lap><Track><Trackpoint><Time>a</Time></Trackpoint><Trackpoint><Time>b</Time></Trackpoint></Track></Lap>"
    assert read_one("a.tcx", f"<T>{lap}</T>").text.endswith("points: 2; Lap.Track.start: a; Lap.Track.end: b")


def test_outline(read_one):
    inner = "<outline text='Leeks' _note='sow in May'/><outline text='Beans'><outline text='climbing'/></outline>"
    body = f"<body><outline text='Beds' _note='south'>{inner}</outline><outline text='News' xmlUrl='x.org'/></body>"
    head = "<head><title>Garden</title><dateModified>Wed, 01 May 2024 10:00:00 GMT</dateModified></head>"
    document = read_one("a.opml", f"<opml>{head}{body}</opml>")
    assert document.text == "Beds\n\nsouth\n- Leeks: sow in May\n\nBeans\n- climbing\n- News: x.org"
    assert (document.title, document.date) == ("Garden", "2024-05-01")
    assert sections(document) == [("Beds", "Beds"), ("Beans", "Beds > Beans"), ("- News: x.org", "")]


def test_property_lists_and_paragraphs(read_one):
    page = "<plist><dict><key>Lamp</key><string>Sol</string><key>On</key><true/><key>Hue</key><string/></dict></plist>"
    assert read_one("a.plist", page).text == "dict.Lamp: Sol; dict.On: true"
    page = "<book><title>Raft</title><p>It had nine logs.</p><p>It sank.</p></book>"
    assert read_one("a.xml", page).text == "title: Raft\n\np: It had nine logs.\nIt sank."


@pytest.mark.parametrize(
    "page", ["<r><i>Fish & chips: 7 euros</i></r>", "<a><b>cut off", "<a>" * 60 + "</a>" * 60], ids=str.__len__
)
def test_damaged_xml_is_read_as_it_is_written(read, page):
    assert named_texts(read("a.xml", page)) == [("", page)]


@pytest.mark.parametrize("name", ["a.json", "a.ipynb"])
@pytest.mark.parametrize("data", ['{"a": 1, // one\n}', '[{"a": 1},\n {"b', "{\n  a: 'x',\n}"])
def test_what_is_not_json_is_read_as_it_is_written(read_one, name, data):
    assert read_one(name, data).text == data


def test_lines_of_json(read):
    assert named_texts(read("a.json", '{"a": 1}\n{"a": 2}\n{"a"')) == [
        ("row 1", "a: 1"),
        ("row 2", "a: 2"),
        ("3", "is not JSON"),
    ]


def test_bad_files(reason):
    assert reason("a.json", "[" * 100_000) == reason("a.json", "[" * 99 + "]" * 99) == "is nested too deeply"
    assert reason("a.json", "  ") == reason("a.json", "null") == reason("a.ipynb", "{}") == "is empty"


def test_long_keys_grow_no_text(read_one):
    value: object = {str(number): number for number in range(100)}
    for _ in range(40):
        value = {"k" * 1000: value}
    assert len(read_one("a.json", json.dumps(value)).text) < 100 * 220

"use strict";

// Tables: a heading's button sorts by its column; lines without a figure stay last.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement;
    const table = heading.closest("table");
    const column = heading.cellIndex;
    const isDescending = heading.getAttribute("aria-sort")
      ? heading.getAttribute("aria-sort") === "ascending"
      : "isFigure" in heading.dataset;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    const body = table.tBodies[0];
    const sign = isDescending ? -1 : 1;
    const lines = [...body.rows].map((row) => {
      const cell = row.cells[column];
      return { row, figure: cell.dataset.order === undefined ? null : Number(cell.dataset.order), text: cell.textContent };
    });
    lines.sort((a, b) => {
      if (a.figure !== null && b.figure !== null) return sign * (a.figure - b.figure);
      if (a.figure !== null || b.figure !== null) return a.figure === null ? 1 : -1;
      return "isFigure" in heading.dataset ? 0 : sign * a.text.localeCompare(b.text);
    });
    body.append(...lines.map((line) => line.row));
  });
}

// Questions: of all that match, only one page is ever in the document.
const PAGE = 50;
const byId = (id) => document.getElementById(id);
const sources = [...document.querySelectorAll("script.cell")];
const cells = new Map();
let shown = [];
let first = 0;

function cellData() {
  const source = sources[Number(byId("cell").value)];
  if (!cells.has(source)) cells.set(source, JSON.parse(source.textContent));
  return cells.get(source);
}

function method(id) {
  return cellData().methods[Number(byId(id).value)];
}

function other() {
  return byId("other").value === "" ? null : method("other");
}

function options(select, names, chosen) {
  select.replaceChildren(
    ...names.map(([value, name]) => {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = name;
      return option;
    }),
  );
  if (names.some(([value]) => value === chosen)) select.value = chosen;
}

function chooseCell() {
  const names = cellData().methods.map((each, number) => [String(number), each.title]);
  options(byId("method"), names, "");
  options(byId("other"), [["", "nothing"], ...names], "");
  find();
}

function textOf(data, number) {
  data.texts ??= [];
  data.texts[number] ??= [data.questions[number][0], data.questions[number][2], ...data.questions[number][3]].join("\n").toLowerCase();
  return data.texts[number];
}

function isFound(data, number, words, methods) {
  const own = textOf(data, number);
  return words.every(
    (word) => own.includes(word) || methods.some((each) => each.answers[number].toLowerCase().includes(word)),
  );
}

function find() {
  const data = cellData();
  const here = method("method");
  const there = other();
  const filter = byId("filter");
  for (const option of filter.querySelectorAll("[data-needs-other]")) option.disabled = there === null;
  if (filter.selectedOptions[0].disabled) filter.value = "all";
  const keeps = {
    all: () => true,
    right: (number) => here.right[number] === 1,
    wrong: (number) => here.right[number] === 0,
    won: (number) => here.right[number] === 1 && there.right[number] === 0,
    lost: (number) => here.right[number] === 0 && there.right[number] === 1,
  }[filter.value];
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const methods = there === null ? [here] : [here, there];
  const asked = data.questions.map((_, number) => number).filter((number) => here.answers[number] !== null);
  const answered = methods.filter(Boolean);
  shown = asked.filter(
    (number) =>
      keeps(number) && isFound(data, number, words, answered.filter((each) => each.answers[number] !== null)),
  );
  first = 0;
  byId("count").textContent = `${shown.length.toLocaleString("en")} of ${asked.length.toLocaleString("en")} questions`;
  draw();
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function reply(each, number) {
  const isRight = each.right[number] === 1;
  const value = element("dd");
  if (each.answers[number] === null) {
    value.append(element("span", "about", "not asked"));
    return [element("dt", "", each.title), value];
  }
  const rank = each.rank[number];
  const source = each.namesSources ? (rank === null ? " · own document not in the first five" : ` · own document ranked ${rank + 1}`) : "";
  value.append(
    element("span", isRight ? "right" : "wrong", `${isRight ? "✓" : "✗"} ${each.answers[number] || "(nothing)"}`),
    " ",
    element("span", "about", `F1 ${(100 * each.f1[number]).toFixed(0)}${source}`),
  );
  return [element("dt", "", each.title), value];
}

function draw() {
  const data = cellData();
  const here = method("method");
  const there = other();
  byId("list").replaceChildren(
    ...shown.slice(first, first + PAGE).map((number) => {
      const [id, documentNumber, question, answers] = data.questions[number];
      const item = element("li");
      const facts = element("dl");
      facts.append(element("dt", "", "gold"), element("dd", "", answers.join(" | ")), ...reply(here, number));
      if (there !== null) facts.append(...reply(there, number));
      item.append(
        element("p", "question", question),
        facts,
        element("span", "about", `document ${documentNumber + 1} · ${id}`),
      );
      return item;
    }),
  );
  const last = Math.min(first + PAGE, shown.length);
  byId("place").textContent = shown.length === 0 ? "none" : `${(first + 1).toLocaleString("en")} to ${last.toLocaleString("en")}`;
  byId("previous").disabled = first === 0;
  byId("next").disabled = last >= shown.length;
}

function turn(by) {
  first += by;
  draw();
  byId("questions").scrollIntoView();
}

if (sources.length > 0) {
  byId("questions").hidden = false;
  options(byId("cell"), sources.map((source, number) => [String(number), source.dataset.title]), "");
  byId("cell").addEventListener("change", chooseCell);
  for (const id of ["method", "other", "filter"]) byId(id).addEventListener("change", find);
  byId("search").addEventListener("input", find);
  byId("choice").addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => turn(-PAGE));
  byId("next").addEventListener("click", () => turn(PAGE));
  chooseCell();
}

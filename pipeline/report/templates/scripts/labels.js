// The tables of labels: sorting by a heading, filtering, showing all, and selecting the curves to draw.
// The page's HTML has the first rows. The script redraws them from the data block next to the table.

const MOST_ROWS = 200; // more are shown on demand
const MOST_CURVES = 6; // number of colours
const LABEL_GAP = 14; // SVG units between two names
const PLOT_HEIGHT = 240;
const [FINDING, PLACEBO] = [1, 2];
const [MARKS, SERIES, CELLS] = [0, 1, 2]; // positions in a row of data

for (const part of document.querySelectorAll("[data-labels]")) enliven(part);

function enliven(part) {
  const data = JSON.parse(document.getElementById(`${part.dataset.labels}-data`).textContent);
  const control = Object.fromEntries([...part.querySelectorAll("[data-control]")].map((e) => [e.dataset.control, e]));
  const [table, status] = [part.querySelector("table.labels"), part.querySelector("[role=status]")];
  const column = (kind) => CELLS + data.kinds.indexOf(kind);
  const of = { label: column("label"), slope: column("slope"), interval: column("interval"), q: column("p") + 1 };
  const placebos = data.kinds.flatMap((kind, n) => (kind === "placebo" ? [CELLS + n] : []));
  const headings = [...table.tHead.rows[0].cells];
  const curves = part.querySelector(".curves") && curvesOf(part.querySelector(".curves"));
  const findings = data.rows.filter((row) => row[MARKS] & FINDING);
  const firstRows = findings.length ? findings : data.rows.slice(0, data.atFirst);
  const order = { heading: null, falling: false };
  let rowsShown = MOST_ROWS;

  function show(most = rowsShown) {
    rowsShown = most;
    const every = data.rows.filter(wanted());
    const all = control.scope.value === "all";
    const scope = all ? data.rows : firstRows;
    const matching = all ? every : every.filter((row) => scope.includes(row));
    table.tBodies[0].replaceChildren(...ordered(matching).slice(0, rowsShown).map(drawRow));
    const what = all ? control.scope.selectedOptions[0].textContent : `${count(scope.length)} ${findings.length ? "findings" : "steepest labels"}`;
    const elsewhere = every.length > matching.length && matching.length < scope.length;
    status.textContent =
      `Shown: ${count(matching.length)} of ${what}.` +
      (elsewhere ? ` ${count(every.length)} of all ${count(data.rows.length)} tested labels match.` : "");
    const rest = Math.max(0, matching.length - rowsShown);
    control.more.closest("p").hidden = rest === 0;
    control.more.textContent = `Show ${count(rest)} more`;
  }

  function wanted() {
    const text = control.text.value.trim().toLocaleLowerCase();
    const [side, q, size] = [control.direction.value, Number(control.q.value), Number(control.size.value)];
    return (row) => {
      const slope = row[of.slope][0];
      return (
        (!text || row[of.label].toLocaleLowerCase().includes(text)) &&
        (!side || (side === "low") === slope < 0) &&
        (!q || (row[of.q] !== null && row[of.q] < q)) &&
        (!size || Math.abs(slope) >= size)
      );
    };
  }

  function ordered(rows) {
    if (order.heading === null) return rows;
    const key = (row) => {
      const value = row[CELLS + order.heading];
      return typeof value === "string" && !isInfinite(value) ? value : numberOf(Array.isArray(value) ? value[0] : value);
    };
    const way = order.falling ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return way * (typeof x === "string" ? x.localeCompare(y) : x - y);
    });
  }

  function drawRow(row) {
    const cells = data.kinds.map((kind, n) => {
      if (kind === "label") return element("th", { scope: "row" }, named(row));
      const shown = kind === "bar" ? drawBar(row) : printed(kind, row[CELLS + n]);
      return element("td", { class: headings[n].className }, shown);
    });
    return element("tr", row[MARKS] & FINDING ? {} : { class: "pale" }, ...cells);
  }

  function named(row) {
    const name = element("span", {}, row[of.label]);
    if (row[MARKS] & PLACEBO) {
      name.append(" ", element("span", { class: "dagger", "aria-hidden": "true" }, "†"));
      name.append(element("span", { class: "aside" }, " (a placebo shows it too)"));
    }
    if (!curves || row[SERIES] === null) return name;
    const words = `Draw the curve of ${row[of.label]}`;
    const tick = element("input", { type: "checkbox", "aria-label": words, "data-series": row[SERIES] });
    const follow = (box) => {
      const slot = curves.slotOf(Number(box.dataset.series));
      Object.assign(box, { checked: slot > 0, className: `slot-${slot}` });
    };
    follow(tick);
    tick.addEventListener("change", () => {
      curves.choose(row[SERIES], tick.checked);
      table.querySelectorAll("[data-series]").forEach(follow);
    });
    return element("label", { class: "pick" }, tick, name);
  }

  function drawBar(row) {
    const slope = row[of.slope][0];
    const share = (number) => (number - data.low) / (data.high - data.low);
    const place = (number) => Math.round(10 * data.width * Math.min(Math.max(share(number), 0), 1)) / 10;
    const [low, high] = row[of.interval].map(numberOf);
    const beyond = slope < data.low || slope > data.high;
    const side = slope < 0 ? "low" : "high";
    const path = (name, d) => `<path class="${name}" d="${d}"/>`;
    const ticks = placebos.filter((n) => row[n] !== null).map((n) => path("placebo", `M${place(numberOf(row[n]))} 3V13`));
    const range = low !== null && high !== null ? path("range", `M${place(low)} 8H${place(high)}`) : "";
    const mark = path("mark", `M${place(slope)} 8${side === "low" ? "m4 -5l-8 5l8 5z" : "m-4 -5l8 5l-8 5z"}`);
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const attributes = {
      class: `bar ${side}${beyond ? " beyond" : ""}`, viewBox: `0 0 ${data.width} ${data.height}`,
      width: data.width, height: data.height, "aria-hidden": "true",
    };
    for (const [name, value] of Object.entries(attributes)) bar.setAttribute(name, value);
    bar.innerHTML = [path("zero", `M${place(0)} 0V16`), range, ...ticks, mark].join(""); // numbers only
    return bar;
  }

  function sortBy(n) {
    // First click: largest first, or from A; second: reversed; third: the original order.
    const fallsFirst = !["label", "p"].includes(data.kinds[n]);
    if (order.heading !== n) Object.assign(order, { heading: n, falling: fallsFirst });
    else if (order.falling === fallsFirst) order.falling = !fallsFirst;
    else order.heading = null;
    headings.forEach((heading, at) => {
      if (at !== order.heading) heading.removeAttribute("aria-sort");
      else heading.setAttribute("aria-sort", order.falling ? "descending" : "ascending");
    });
    show();
  }

  headings.forEach((heading, n) => {
    if (data.kinds[n] === "bar") return;
    const button = element("button", { type: "button", class: "sort" }, ...heading.childNodes);
    button.addEventListener("click", () => sortBy(n));
    heading.replaceChildren(button);
  });
  for (const name of ["scope", "text", "direction", "q", "size"]) {
    control[name].addEventListener("input", () => show(MOST_ROWS));
  }
  control.wide.addEventListener("input", () => table.classList.toggle("every", control.wide.checked));
  control.more.addEventListener("click", () => show(Infinity));
  control.reset.addEventListener("click", () => {
    for (const name of ["scope", "direction", "q"]) control[name].selectedIndex = 0;
    for (const name of ["text", "size"]) control[name].value = "";
    control.wide.checked = false;
    table.classList.remove("every");
    headings.forEach((heading) => heading.removeAttribute("aria-sort"));
    order.heading = null;
    curves?.atFirst();
    show(MOST_ROWS);
  });
  addEventListener("beforeprint", () => show(Infinity));
  table.classList.add("live");
  const filters = part.querySelector(".filters");
  filters.hidden = false;
  filters.open = !matchMedia("(max-width: 560px)").matches; // they would fill a phone's screen
  show();
}

// The groups of a chart of curves, one per label: visibility, colours, and positions of the names.
function curvesOf(figure) {
  const groups = [...figure.querySelectorAll("[data-series]")];
  const first = groups.map((_, series) => series).filter((series) => !groups[series].hasAttribute("display"));
  let slots = new Map(); // series -> colour, the oldest choice first

  function draw() {
    groups.forEach((group, series) => {
      if (!slots.has(series)) return group.setAttribute("display", "none");
      group.removeAttribute("display");
      group.setAttribute("class", `slot-${slots.get(series)}`);
    });
    keepApart([...slots.keys()].map((series) => groups[series]));
    const words = [...slots.keys()].map((series) => groups[series].querySelector("title").textContent);
    figure.querySelector("svg > desc").textContent = words.join("; ");
  }

  function choose(series, chosen) {
    if (!chosen) slots.delete(series);
    else {
      if (slots.size === MOST_CURVES) slots.delete(slots.keys().next().value);
      const taken = new Set(slots.values());
      slots.set(series, [1, 2, 3, 4, 5, 6].find((slot) => !taken.has(slot)));
    }
    draw();
  }

  function atFirst() {
    slots = new Map(first.map((series, n) => [series, n + 1]));
    draw();
  }

  atFirst();
  return { choose, atFirst, slotOf: (series) => slots.get(series) ?? 0 };
}

// Moves names at the ends of their lines apart, so that they do not overlap.
function keepApart(groups) {
  const names = groups.map((group) => {
    const [leader, text] = [group.querySelector("line"), group.querySelector("text")];
    return { leader, text, end: offset(leader).f };
  });
  names.sort((a, b) => a.end - b.end);
  let floor = -Infinity;
  for (const name of names) floor = (name.place = Math.max(name.end, floor)) + LABEL_GAP;
  let ceiling = PLOT_HEIGHT;
  for (const name of [...names].reverse()) ceiling = (name.place = Math.min(name.place, ceiling)) - LABEL_GAP;
  for (const { leader, text, end, place } of names) {
    leader.setAttribute("y2", (place - end).toFixed(1));
    text.setAttribute("transform", `translate(${offset(text).e},${(place + 3).toFixed(1)})`);
  }
}

function offset(mark) {
  return mark.transform.baseVal.getItem(0).matrix;
}

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Numbers in the page's format (formats.py); the data are rounded.
function printed(kind, value) {
  if (kind === "slope") return decimal(value[0], true) + value[1];
  if (kind === "interval") return value.includes(null) ? "–" : `${decimal(value[0])} to ${decimal(value[1])}`;
  if (kind === "p") return value !== null && value < 0.001 ? "<0.001" : decimal(value);
  return kind === "count" ? count(value) : decimal(value);
}

function decimal(value, sign = false) {
  if (value === null) return "–";
  if (isInfinite(value)) return value;
  const digits = Math.abs(value).toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
  return (value < 0 ? "−" : sign && value > 0 ? "+" : "") + digits;
}

function count(value) {
  return value === null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 0 });
}

function isInfinite(value) {
  return value === "∞" || value === "−∞";
}

function numberOf(value) {
  return isInfinite(value) ? (value === "∞" ? Infinity : -Infinity) : value;
}
// Open all details for printing, and restore them afterwards.

let closed = [];

addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const part of closed) part.open = true;
});
addEventListener("afterprint", () => {
  for (const part of closed) part.open = false;
  closed = [];
});

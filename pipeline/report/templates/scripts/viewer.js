// The sweep viewer: a photo, an attribute, a value of a; the image, and each classifier’s scores for it.
// Names and labels come from outside: they are set as text, never as HTML.

const live = document.getElementById("viewer-live");
if (!live) return;

const part = (name) => document.getElementById(`viewer-${name}`);
const data = (name) => JSON.parse(part(name).textContent);
const index = data("index");
const films = data("films");
const OTHERS = "Scored highest for this photo";

const state = { photo: index.first, attribute: 0, arm: 0, step: 0 };
let rows = []; // the bars on the page: what they show at each step, and their elements
let speaking = 0;

function made(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

function attribute() {
  return index.attributes[state.attribute];
}

function sweepOf(photo) {
  const own = photo.sweeps.filter((sweep) => sweep.attribute === state.attribute);
  return own.find((sweep) => sweep.arm === state.arm) || own[0] || photo.sweeps[0];
}

function current() {
  return index.photos[state.photo];
}

// One version of a film: the image is as wide as all versions, its frame as one.
function show(image, film, step, steps) {
  const source = `data:image/webp;base64,${films[film]}`;
  if (image.src !== source) image.src = source;
  image.style.width = `${100 * steps}%`;
  image.style.transform = `translateX(${(-100 * step) / steps}%)`;
}

// Label number -> its score at each step, null where it was not returned.
function unpacked(text, steps) {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const number = (place) => bytes[2 * place] | (bytes[2 * place + 1] << 8);
  const scores = new Map();
  for (let place = 0; 2 * place < bytes.length; place += steps + 1) {
    const own = Array.from({ length: steps }, (_, step) => number(place + 1 + step));
    scores.set(number(place), own.map((score) => (score === index.absent ? null : score / index.scale)));
  }
  return scores;
}

function printed(score) {
  return score > 0 && score < 0.005 ? "< 0.01" : score.toFixed(2);
}

// ---- the strip of photos

const strip = part("strip");
const arrived = new IntersectionObserver(
  (entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      arrived.unobserve(entry.target);
      const photo = index.photos[entry.target.dataset.photo];
      const sweep = photo.sweeps[0];
      const { middle, values } = index.attributes[sweep.attribute];
      show(entry.target.querySelector("img"), sweep.film, middle, values.length);
    }
  },
  { root: strip, rootMargin: "0px 300px" },
);

const choices = index.photos.map((photo, number) => {
  const label = made("label", "viewer-photo");
  const input = made("input");
  Object.assign(input, { type: "radio", name: "viewer-photo", value: number, checked: number === index.first });
  const thumb = made("span", "viewer-thumb");
  const image = made("img");
  image.alt = "";
  thumb.append(image);
  const name = made("span", "viewer-photo-name", photo.name);
  label.title = photo.name;
  label.dataset.photo = number;
  label.append(input, thumb, name);
  if (photo.flagged) {
    const mark = made("span", "viewer-mark", "!");
    mark.setAttribute("aria-hidden", "true");
    label.append(mark, made("span", "viewer-unseen", ", has a missed check or an unanswered version"));
  }
  input.addEventListener("change", () => choosePhoto(number));
  arrived.observe(label);
  return { label, input, photo, found: photo.name.toLowerCase() };
});
strip.append(...choices.map((choice) => choice.label));

function filter() {
  const wanted = part("search").value.trim().toLowerCase();
  const flagged = part("flagged")?.checked;
  let found = 0;
  for (const choice of choices) {
    const fits = choice.found.includes(wanted) && (!flagged || choice.photo.flagged);
    choice.label.hidden = !fits;
    found += fits;
  }
  part("count").textContent = found === 1 ? "1 photo" : `${found} photos`;
}

// ---- a photo, an attribute, an arm

function choosePhoto(number) {
  state.photo = number;
  choices[number].input.checked = true;
  rebuild();
}

function options(select, numbers, words, chosen) {
  select.replaceChildren(
    ...numbers.map((number) => {
      const option = made("option", "", words(number));
      option.value = number;
      option.selected = number === chosen;
      return option;
    }),
  );
  select.parentElement.hidden = numbers.length < 2;
}

function rebuild() {
  const photo = current();
  const sweep = sweepOf(photo);
  if (sweep.attribute !== state.attribute) state.step = index.attributes[sweep.attribute].middle;
  state.attribute = sweep.attribute;
  const { subject, low, high, values } = attribute();
  const numbers = (name, from) => [...new Set(from.map((one) => one[name]))];
  options(part("attribute"), numbers("attribute", photo.sweeps), (one) => index.attributes[one].subject, sweep.attribute);
  const arms = photo.sweeps.filter((one) => one.attribute === sweep.attribute);
  options(part("arm"), numbers("arm", arms), (one) => index.arms[one], sweep.arm);
  part("name").textContent = photo.name;
  part("dial-name").textContent = `Value of a, ${subject}`;
  part("low").textContent = `← ${low}`;
  part("high").textContent = `${high} →`;
  part("dial").max = values.length - 1;
  for (const path of part("edge").children) path.setAttribute("d", photo.outline);
  const missed = photo.missed.filter(([own]) => own === sweep.attribute);
  part("missed").replaceChildren(...missed.map(([, words]) => made("li", "", `Misses a check: ${words}`)));
  part("missed").hidden = !missed.length;
  rows = [];
  part("scores").replaceChildren(...index.adapters.map((adapter, number) => scoresOf(adapter, sweep, sweep.scores[number])));
  step(state.step);
}

function scoresOf(adapter, sweep, words) {
  const steps = attribute().values.length;
  const block = made("section", "viewer-adapter");
  const heading = made("h3", "", adapter.name);
  const notice = made("p", "viewer-notice");
  notice.hidden = true;
  block.append(heading);
  if (adapter.presence) block.append(made("p", "note", `A label counts as present from ${adapter.presence}.`));
  block.append(notice);
  if (!words) {
    notice.hidden = false;
    notice.textContent = "This classifier has no answers for this sweep.";
    return block;
  }
  const [packed, unanswered] = words;
  const scores = unpacked(packed, steps);
  const missing = new Map(unanswered);
  rows.push({ adapter: adapter.name, notice, missing, bars: [] });
  const { bars } = rows[rows.length - 1];
  const steepest = adapter.steepest[sweep.attribute];
  const first = new Set(steepest.map(([label]) => label));
  const others = [...scores.keys()].filter((label) => !first.has(label)).map((label) => [label, ""]);
  const nothing = Array(steps).fill(null);
  for (const [title, labels] of [["Steepest slopes of all photos", steepest], [OTHERS, others]]) {
    if (!labels.length) continue;
    const table = made("table", "viewer-bars");
    const body = made("tbody");
    table.append(made("caption", "", title), body);
    for (const [label, slope] of labels) {
      const bar = barOf(adapter.labels[label], slope, scores.get(label) || nothing);
      bars.push(bar);
      body.append(bar.row);
    }
    block.append(table);
  }
  if (!bars.length) block.append(made("p", "none", "No label was returned for this sweep."));
  return block;
}

function barOf(label, slope, scores) {
  const row = made("tr");
  const name = made("th", "", label);
  name.scope = "row";
  if (slope) name.append(" ", made("span", "", `slope ${slope}`));
  const track = made("div", "viewer-track");
  const fill = made("div", "viewer-fill");
  track.append(fill);
  const middle = scores[attribute().middle];
  if (middle !== null) {
    const mark = made("div", "viewer-then");
    mark.style.left = `${100 * middle}%`;
    track.append(mark);
  }
  const cell = made("td", "viewer-bar");
  const number = made("td", "viewer-score");
  cell.append(track);
  row.append(name, cell, number);
  return { label, scores, row, fill, number };
}

// ---- a value of a

function step(number) {
  const { readings, subject, values } = attribute();
  const sweep = sweepOf(current());
  state.step = Math.min(Math.max(number, 0), values.length - 1);
  const words = readings[state.step];
  part("dial").value = state.step;
  part("dial").setAttribute("aria-valuetext", words);
  part("reading").textContent = `a = ${words}`;
  show(part("image"), sweep.film, state.step, values.length);
  part("image").alt = `${current().name}, ${index.arms[sweep.arm]}: ${subject} at a = ${words}`;
  for (const one of rows) {
    const why = one.missing.get(state.step);
    one.notice.hidden = why === undefined;
    one.notice.textContent = why === undefined ? "" : `No answer for this version: ${index.reasons[why]}`;
    for (const bar of one.bars) draw(bar, why !== undefined);
  }
  clearTimeout(speaking);
  speaking = setTimeout(speak, 500, words);
}

function draw({ scores, row, fill, number }, missing) {
  const score = missing ? null : scores[state.step];
  fill.style.width = score === null ? "0" : `${100 * score}%`;
  row.classList.toggle("viewer-absent", score === null);
  number.textContent = missing ? "no answer" : score === null ? "not returned" : printed(score);
}

// The value, and of each classifier the labels that moved most from a = 0.
function speak(words) {
  const { middle } = attribute();
  const parts = rows.map(({ adapter, missing, bars }) => {
    if (missing.has(state.step)) return `${adapter}: no answer`;
    const moved = bars
      .map((bar) => ({ bar, by: Math.abs((bar.scores[state.step] || 0) - (bar.scores[middle] || 0)) }))
      .sort((one, other) => other.by - one.by)
      .slice(0, 2)
      .map(({ bar }) => `${bar.label} ${bar.number.textContent}`);
    return `${adapter}: ${moved.join(", ") || "no label"}`;
  });
  part("summary").textContent = `a = ${words}. ${parts.join(". ")}.`;
}

part("search").addEventListener("input", filter);
part("flagged")?.addEventListener("change", filter);
part("dial").addEventListener("input", () => step(Number(part("dial").value)));
part("attribute").addEventListener("change", (event) => {
  state.attribute = Number(event.target.value);
  state.step = attribute().middle;
  rebuild();
});
part("arm").addEventListener("change", (event) => {
  state.arm = Number(event.target.value);
  rebuild();
});
part("mask").addEventListener("change", (event) => part("edge").toggleAttribute("hidden", !event.target.checked));

// Dragging sideways over the picture is dragging the dial.
const frame = part("frame");
frame.addEventListener("pointerdown", (event) => {
  frame.setPointerCapture(event.pointerId);
  drag(event);
});
frame.addEventListener("pointermove", (event) => frame.hasPointerCapture(event.pointerId) && drag(event));

function drag(event) {
  const { left, width } = frame.getBoundingClientRect();
  step(Math.round(((event.clientX - left) / width) * (attribute().values.length - 1)));
}

// ---- a link to a face, an attribute and a step: #viewer:photo=NAME&attribute=gender&step=3

const LINK = "#viewer:";

function keepLink() {
  const { name } = current();
  const link = new URLSearchParams({ photo: name, attribute: attribute().name, step: state.step + 1 });
  history.replaceState(null, "", LINK + link);
}

function follow() {
  if (!location.hash.startsWith(LINK)) return;
  const link = new URLSearchParams(location.hash.slice(LINK.length));
  const photo = index.photos.findIndex((one) => one.name === link.get("photo"));
  if (photo < 0) return;
  const wanted = index.attributes.findIndex((one) => one.name === link.get("attribute"));
  state.photo = photo;
  choices[photo].input.checked = true;
  if (current().sweeps.some((sweep) => sweep.attribute === wanted)) state.attribute = wanted;
  state.step = Number(link.get("step")) - 1 || 0;
  rebuild();
  document.getElementById("viewer").scrollIntoView();
}

state.attribute = current().sweeps[0].attribute;
state.arm = current().sweeps[0].arm;
state.step = attribute().middle;
filter();
rebuild();
follow();
addEventListener("hashchange", follow);
for (const control of [part("dial"), part("attribute"), part("strip")]) control.addEventListener("change", keepLink);
live.hidden = false;
for (const sheet of part("plain").querySelectorAll("details")) sheet.open = false; // on paper they are open

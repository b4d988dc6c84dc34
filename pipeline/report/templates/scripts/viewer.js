// The sweep viewer: the image of a photo at a value of an attribute, and the classifiers’ scores for it.
// Names and labels are untrusted, so they are set as text, never as HTML.

const live = document.getElementById("viewer-live");
if (!live) return;

const part = (name) => document.getElementById(`viewer-${name}`);
const [index, films] = ["index", "films"].map((name) => JSON.parse(part(name).textContent));
const LINK = "#viewer:"; // such as #viewer:photo=NAME&attribute=gender&step=3

const state = { photo: index.first, attribute: 0, arm: 0, step: 0 };
let rows = []; // the bars on the page: their data at each step, and their elements
let speaking = 0;

const attribute = () => index.attributes[state.attribute];
const current = () => index.photos[state.photo];
const dial = () => index.dials[sweepOf(current()).dial]; // a placebo has fewer values than the edit

function made(tag, name = "", ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

function sweepOf(photo) {
  const own = photo.sweeps.filter((sweep) => sweep.attribute === state.attribute);
  return own.find((sweep) => sweep.arm === state.arm) || own[0] || photo.sweeps[0];
}

// Shows one version of a film: the image is as wide as all versions, its frame as one.
function show(image, film, step, steps) {
  const source = `data:image/webp;base64,${films[film]}`;
  if (image.src !== source) image.src = source;
  image.style.width = `${100 * steps}%`;
  image.style.transform = `translateX(${(-100 * step) / steps}%)`;
}

// Label index -> its score at each step, null if it was not returned.
function unpacked(text, steps) {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const numbers = Array.from({ length: bytes.length / 2 }, (_, place) => bytes[2 * place] | (bytes[2 * place + 1] << 8));
  const scores = new Map();
  for (let place = 0; place < numbers.length; place += steps + 1) {
    const own = numbers.slice(place + 1, place + 1 + steps);
    scores.set(numbers[place], own.map((score) => (score === index.absent ? null : score / index.scale)));
  }
  return scores;
}

// ---- the strip of photos

const strip = part("strip");
const arrived = new IntersectionObserver(
  (entries) => {
    for (const { target } of entries.filter((one) => one.isIntersecting)) {
      arrived.unobserve(target);
      const sweep = index.photos[target.dataset.photo].sweeps[0];
      const { middle, values } = index.dials[sweep.dial];
      show(target.querySelector("img"), sweep.film, middle, values.length);
    }
  },
  { root: strip, rootMargin: "0px 300px" },
);

const choices = index.photos.map((photo, number) => {
  const input = Object.assign(made("input"), { type: "radio", name: "viewer-photo", value: number });
  const thumb = made("span", "viewer-thumb", Object.assign(made("img"), { alt: "" }));
  const label = made("label", "viewer-photo", input, thumb, made("span", "viewer-photo-name", photo.name));
  label.title = photo.name;
  label.dataset.photo = number;
  if (photo.flagged) {
    const mark = Object.assign(made("span", "viewer-mark", "!"), { ariaHidden: "true" });
    label.append(mark, made("span", "aside", ", has a failed check or an unanswered version"));
  }
  input.addEventListener("change", () => choose({ photo: number }));
  arrived.observe(label);
  return { label, input, photo, found: photo.name.toLowerCase() };
});
strip.append(...choices.map((choice) => choice.label));

function filter() {
  const wanted = part("search").value.trim().toLowerCase();
  for (const { label, photo, found } of choices) {
    label.hidden = !found.includes(wanted) || (part("flagged")?.checked && !photo.flagged);
  }
  const found = choices.filter(({ label }) => !label.hidden).length;
  part("count").textContent = found === 1 ? "1 photo" : `${found} photos`;
}

function showChosen() {
  const [chosen, seen] = [choices[state.photo].label, strip].map((one) => one.getBoundingClientRect());
  strip.scrollLeft += chosen.left - seen.left - (seen.width - chosen.width) / 2; // does not scroll the page
}

// ---- a photo, an attribute, an arm

function options(select, numbers, words, chosen) {
  const option = (number) => new Option(words(number), number, false, number === chosen);
  select.replaceChildren(...[...new Set(numbers)].map(option));
  select.parentElement.hidden = select.length < 2;
}

function choose(changes) {
  const [before, value] = [state.attribute, dial().values[state.step]];
  Object.assign(state, changes);
  const photo = current();
  const sweep = sweepOf(photo);
  state.attribute = sweep.attribute;
  const { middle, values } = dial();
  const nearest = () => values.reduce((best, one, n) => (Math.abs(one - value) < Math.abs(values[best] - value) ? n : best), 0);
  state.step = sweep.attribute === before && value !== undefined ? nearest() : middle;
  choices[state.photo].input.checked = true;
  const { subject, low, high } = attribute();
  const arms = photo.sweeps.filter((one) => one.attribute === sweep.attribute).map((one) => one.arm);
  const attributes = photo.sweeps.map((one) => one.attribute);
  options(part("attribute"), attributes, (one) => index.attributes[one].subject, sweep.attribute);
  options(part("arm"), arms, (one) => index.arms[one], sweep.arm);
  part("name").textContent = photo.name;
  part("dial-name").textContent = `Value of a, ${subject}`;
  part("low").textContent = `← ${low}`;
  part("high").textContent = `${high} →`;
  part("dial").max = values.length - 1;
  for (const path of part("edge").children) path.setAttribute("d", photo.outline);
  const missed = photo.missed.filter(([own]) => own === sweep.attribute);
  part("missed").replaceChildren(...missed.map(([, words]) => made("li", "", `Fails a check: ${words}`)));
  part("missed").hidden = !missed.length;
  rows = [];
  part("scores").replaceChildren(...index.adapters.map((adapter, n) => scoresOf(adapter, sweep, sweep.scores[n])));
  step(state.step);
}

function scoresOf(adapter, sweep, words) {
  const steps = index.dials[sweep.dial].values.length;
  const notice = made("p", "viewer-notice", "This classifier gave no answers for this sweep.");
  const block = made("section", "viewer-adapter", made("h3", "", adapter.name));
  if (adapter.presence) block.append(made("p", "note", `A label counts as present from ${adapter.presence}.`));
  block.append(notice);
  if (!words) return block;
  const [scores, missing] = [unpacked(words[0], steps), new Map(words[1])];
  const steepest = adapter.steepest[sweep.attribute];
  const first = new Set(steepest.map(([label]) => label));
  const others = [...scores.keys()].filter((label) => !first.has(label)).map((label) => [label, ""]);
  const bars = [];
  for (const [title, labels] of [["Labels with the steepest slopes over all photos", steepest], ["Labels with the highest scores for this photo", others]]) {
    if (!labels.length) continue;
    const own = labels.map(([label, slope]) => barOf(adapter.labels[label], slope, scores.get(label) || Array(steps).fill(null)));
    bars.push(...own);
    const body = made("tbody", "", ...own.map((bar) => bar.row));
    block.append(made("table", "viewer-bars", made("caption", "", title), body));
  }
  rows.push({ adapter: adapter.name, notice, missing, bars });
  if (!bars.length) block.append(made("p", "none", "No label was returned for this sweep."));
  return block;
}

function barOf(label, slope, scores) {
  const name = Object.assign(made("th", "", label), { scope: "row" });
  if (slope) name.append(" ", made("span", "", `slope ${slope}`));
  const fill = made("div", "viewer-fill");
  const track = made("div", "viewer-track", fill);
  const middle = scores[dial().middle];
  if (middle !== null) {
    track.append(made("div", "viewer-then"));
    track.lastChild.style.left = `${100 * middle}%`;
  }
  const number = made("td", "viewer-score");
  return { label, scores, fill, number, row: made("tr", "", name, made("td", "viewer-bar", track), number) };
}

// ---- a value of a

function step(number) {
  const { readings, values } = dial();
  const sweep = sweepOf(current());
  state.step = Math.min(Math.max(number, 0), values.length - 1);
  const words = readings[state.step];
  part("dial").value = state.step;
  part("dial").setAttribute("aria-valuetext", words);
  part("reading").textContent = `a = ${words}`;
  show(part("image"), sweep.film, state.step, values.length);
  part("image").alt = `${current().name}, ${index.arms[sweep.arm]}: ${attribute().subject} at a = ${words}`;
  for (const { notice, missing, bars } of rows) {
    const why = missing.get(state.step);
    notice.hidden = why === undefined;
    notice.textContent = why === undefined ? "" : `No answer for this version: ${index.reasons[why]}`;
    for (const bar of bars) draw(bar, why !== undefined);
  }
  clearTimeout(speaking);
  speaking = setTimeout(speak, 500, words);
}

function draw({ scores, row, fill, number }, missing) {
  const score = missing ? null : scores[state.step];
  fill.style.width = score === null ? "0" : `${100 * score}%`;
  row.classList.toggle("viewer-absent", score === null);
  const printed = score > 0 && score < 0.005 ? "< 0.01" : score?.toFixed(2);
  number.textContent = missing ? "no answer" : score === null ? "not returned" : printed;
}

// Announces the value and, for each classifier, the labels whose scores differ most from those at a = 0.
function speak(words) {
  const { middle } = dial();
  const parts = rows.map(({ adapter, missing, bars }) => {
    if (missing.has(state.step)) return `${adapter}: no answer`;
    const by = ({ scores }) => Math.abs((scores[state.step] || 0) - (scores[middle] || 0));
    const moved = [...bars].sort((one, other) => by(other) - by(one)).slice(0, 2);
    return `${adapter}: ${moved.map((bar) => `${bar.label} ${bar.number.textContent}`).join(", ") || "no label"}`;
  });
  part("summary").textContent = `a = ${words}. ${parts.join(". ")}.`;
}

function keepLink() {
  const link = new URLSearchParams({ photo: current().name, attribute: attribute().name, step: state.step + 1 });
  history.replaceState(null, "", LINK + link);
}

function follow() {
  if (!location.hash.startsWith(LINK)) return;
  const link = new URLSearchParams(location.hash.slice(LINK.length));
  const [photo, wanted] = [index.photos, index.attributes].map((all, n) =>
    all.findIndex((one) => one.name === link.get(["photo", "attribute"][n])),
  );
  if (photo < 0) return;
  const known = index.photos[photo].sweeps.some((sweep) => sweep.attribute === wanted);
  choose({ photo, attribute: known ? wanted : state.attribute });
  step(Number(link.get("step")) - 1 || 0);
  showChosen();
  document.getElementById("viewer").scrollIntoView();
}

part("search").addEventListener("input", filter);
part("flagged")?.addEventListener("change", filter);
part("dial").addEventListener("input", () => step(Number(part("dial").value)));
part("attribute").addEventListener("change", ({ target }) => {
  choose({ attribute: Number(target.value) });
});
part("arm").addEventListener("change", ({ target }) => choose({ arm: Number(target.value) }));
part("mask").addEventListener("change", ({ target }) => part("edge").toggleAttribute("hidden", !target.checked));

// Dragging sideways over the image moves the dial.
const frame = part("frame");
function drag(event) {
  const { left, width } = frame.getBoundingClientRect();
  step(Math.round(((event.clientX - left) / width) * (dial().values.length - 1)));
}
frame.addEventListener("pointerdown", (event) => {
  frame.setPointerCapture(event.pointerId);
  drag(event);
});
frame.addEventListener("pointermove", (event) => frame.hasPointerCapture(event.pointerId) && drag(event));

const [{ attribute: first, arm, dial: opening }] = current().sweeps;
filter();
Object.assign(state, { attribute: first, arm, step: index.dials[opening].middle });
choose({});
follow();
addEventListener("hashchange", follow);
for (const name of ["dial", "attribute", "strip"]) part(name).addEventListener("change", keepLink);
live.hidden = false;
showChosen();
for (const sheet of part("plain").querySelectorAll("details")) sheet.open = false; // on paper they are open

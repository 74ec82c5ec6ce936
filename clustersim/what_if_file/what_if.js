const page = JSON.parse(document.getElementById("page").textContent);
const { knobs } = page;
const FIGURES = ["scaling", "breakdown", "timeline"];
const NARROW_PX = 640;
const at = (id) => document.getElementById(id);
const dark = window.matchMedia("(prefers-color-scheme: dark)");

// Points: the settings of each, and its data, which is unpacked when it is shown.

const own = knobs.map((knob) => knob.current);
const strategyOf = (settings) => {
  const place = knobs.findIndex((knob) => knob.stops[0].kind !== null);
  return place < 0 ? null : knobs[place].stops[settings[place]].kind;
};
const applies = (knob, settings) => !knob.kinds.length || knob.kinds.includes(strategyOf(settings));
const turned = (settings) => knobs.map((knob, place) => place)
  .filter((place) => settings[place] !== own[place] && applies(knobs[place], settings));
const keyOf = (settings) => turned(settings).map((place) => `${place}=${settings[place]}`).join(" ");
const numbers = new Map(page.points.map((pairs, number) => [
  [...pairs].sort((a, b) => a[0] - b[0]).map(([place, stop]) => `${place}=${stop}`).join(" "), number,
]));
const numberOf = (settings) => numbers.get(keyOf(settings));
const withStop = (settings, place, stop) => settings.map((value, other) => (other === place ? stop : value));
const setBack = (settings, places) => settings.map((value, place) => (places.includes(place) ? own[place] : value));

const packs = new Map();
const pointOf = async (number) => {
  const name = `points-${Math.floor(number / page.perPack)}`;
  if (!packs.has(name)) packs.set(name, unpack(name).then(JSON.parse));
  return (await packs.get(name))[number % page.perPack];
};

// The knobs that have to be set back for one value of a knob to have a point; null where there is none.
const inTheWay = (settings, place, stop) => {
  const others = turned(settings).filter((other) => other !== place);
  const tries = [[], others.filter((other) => !knobs[other].combined), others];
  return tries.find((places) => numberOf(withStop(setBack(settings, places), place, stop)) !== undefined) || null;
};

// Figures.

const draw = (figure, name, which) => {
  const place = at(`plot-${name}-${which}`);
  const width = place.clientWidth;
  const narrow = width < NARROW_PX;
  const { data, layout } = drawing(figure, width, narrow, page.themes[dark.matches ? "dark" : "light"]);
  at(`title-${name}-${which}`).textContent = figure.title;
  at(`under-${name}-${which}`).textContent = figure.subtitle;
  at(`note-${name}-${which}`).textContent = figure.note;
  Plotly.react(place, data, layout, { responsive: false, displaylogo: false, displayModeBar: false });
};
const drawPoint = (point, which) => {
  for (const name of FIGURES) {
    const figure = point.figures[name];
    if (figure) draw(figure, name, which);
    else {
      Plotly.purge(at(`plot-${name}-${which}`));
      at(`title-${name}-${which}`).textContent = name === "timeline" ? "One iteration" : "";
      at(`under-${name}-${which}`).textContent = point.no_timeline || "This run has no timeline.";
      at(`note-${name}-${which}`).textContent = "";
    }
  }
};

// Tables.

const row = (tag, cells) => {
  const line = document.createElement("tr");
  for (const text of cells) {
    const cell = document.createElement(tag);
    cell.textContent = text;
    cell.className = "number";
    line.append(cell);
  }
  return line;
};
const fill = (table, headings, rows) => {
  table.tHead.replaceChildren(row("th", headings));
  table.tBodies[0].replaceChildren(...rows.map((cells) => row("td", cells)));
};
const settingsText = (settings) => turned(settings)
  .map((place) => `${knobs[place].label}: ${knobs[place].stops[settings[place]].label}`).join("; ") || "the scenario as it is";
const compare = () => {
  at("compare").hidden = !pinned;
  document.body.classList.toggle("with-pin", Boolean(pinned));
  at("unpin").hidden = !pinned;
  if (!pinned) return;
  const cells = ({ point }) => new Map(point.table.headings.map((heading, place) => [heading, point.table.rows.at(-1)[place]]));
  const [before, now] = [cells(pinned), cells(shown)];
  const headings = [...new Set([...before.keys(), ...now.keys()])];
  const line = (name, found) => [name, ...headings.map((heading) => found.get(heading) ?? "")];
  fill(at("compare").querySelector("table"), ["", ...headings], [line("pinned", before), line("now", now)]);
  const factor = shown.point.rate / pinned.point.rate;
  const change = Math.abs(factor - 1) < 0.0005 ? "as fast as" : `${factor.toFixed(2)} times as fast as`;
  at("compare-under").textContent =
    `Now (${settingsText(shown.settings)}) is ${change} the pinned run (${settingsText(pinned.settings)}), in samples per second.`;
};

// The page for the present settings.

const begin = [...own];
page.points[page.first].forEach(([place, stop]) => { begin[place] = stop; });
let settings = [...begin];
let shown = null;
let pinned = null;
let latest = 0;

const setButton = (places, text = "Set back") => {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small";
  button.textContent = text;
  button.addEventListener("click", () => change(setBack(settings, places)));
  return button;
};
const labels = (places) => places.map((place) => knobs[place].label).join(", ");
// A message: its first sentence, and the rest, which the reader may open.
const folded = (tag, text) => {
  const line = document.createElement(tag);
  const [, key = "", sentence, rest] = text.match(/^([\w.]+: )?(.+?)(?:: |; )(.+)$/s) || [null, "", text, ""];
  line.textContent = rest ? `${key}${sentence}.` : text;
  if (!rest) return line;
  const details = document.createElement("details");
  details.append(Object.assign(document.createElement("summary"), { textContent: "More" }), rest);
  line.append(details);
  return line;
};
const refuse = (title, texts, extra = []) => {
  at("refused").replaceChildren(...texts.map((text) => folded("p", text)), ...extra);
  at("refused").hidden = false;
  at("headline").textContent = title;
  at("more").textContent = "";
  at("last").hidden = !shown;
  at("figures").classList.add("stale");
};
const showPoint = (point) => {
  shown = { point, settings };
  at("refused").hidden = at("last").hidden = true;
  at("figures").classList.remove("stale");
  const { headline, more } = point.question || point;
  at("headline").textContent = headline;
  at("more").textContent = more;
  compare();
  drawPoint(point, "now");
  fill(at("sizes").querySelector("table"), point.table.headings, point.table.rows);
  const left = Object.entries(point.left_out).map(([size, why]) => folded("li", `Not on the curve: ${size} GPUs, as ${why}`));
  const warnings = point.warnings.map((text) => Object.assign(document.createElement("li"), { textContent: text }));
  at("remarks").replaceChildren(...left, ...warnings);
};
const reproduce = (command, scenario) => {
  at("command").textContent = command;
  at("scenario").textContent = scenario;
  at("reproduce").hidden = !command;
  at("with-scenario").hidden = !scenario;
};
const show = async () => {
  const turn = ++latest;
  const number = numberOf(settings);
  if (number === undefined) {
    const places = turned(settings);
    refuse("These settings together are not in this file.",
      [`It has ${settingsText(settings)} only one at a time, or not at all; see “What is in this file”.`], [setButton(places, "Set all back")]);
    reproduce("", "");
  } else {
    const point = await pointOf(number);
    if (turn !== latest) return;
    reproduce(point.command, point.scenario);
    if (point.refusal.length) refuse("These settings are refused.", point.refusal);
    else showPoint(point);
  }
  document.body.dataset.shown = keyOf(settings) || "own";
};
const change = (next) => {
  settings = next;
  update();
  updateGrey();
  show();
};

// Knobs.

const widgets = knobs.map((knob, place) => {
  const box = document.createElement("div");
  box.className = "knob";
  const name = document.createElement("label");
  const text = document.createElement("span");
  const value = document.createElement("output");
  const why = document.createElement("p");
  const isScale = knob.kind === "number";
  const input = document.createElement(isScale ? "input" : "select");
  const hasUnit = !knob.unit || knob.unit === knob.label || knob.stops.some((stop) => stop.label.includes(knob.unit));
  text.textContent = hasUnit ? knob.label : `${knob.label} (${knob.unit})`;
  input.id = name.htmlFor = `knob-${place}`;
  input.name = knob.name;
  why.className = "why";
  why.id = `why-${place}`;
  input.setAttribute("aria-describedby", `${why.id} grey`);
  name.append(text, value);
  box.append(name, input);
  const ticks = document.createElement("div");
  if (isScale) {
    Object.assign(input, { type: "range", min: 0, max: knob.stops.length - 1, step: 1 });
    ticks.className = "ticks";
    ticks.append(...knob.stops.map((stop) => Object.assign(document.createElement("i"), { title: stop.label })));
    box.append(ticks);
  } else {
    input.append(...knob.stops.map((stop, number) => new Option(stop.label, number)));
  }
  box.append(why);
  input.addEventListener("input", () => change(withStop(settings, place, Number(input.value))));
  return { box, input, value, why, ticks };
});

const update = () => knobs.forEach((knob, place) => {
  const { box, input, value, why, ticks } = widgets[place];
  const stop = settings[place];
  const ways = knob.stops.map((_, number) => inTheWay(settings, place, number));
  const isUsed = applies(knob, settings);
  input.value = stop;
  input.disabled = !isUsed;
  box.classList.toggle("turned", turned(settings).includes(place));
  value.textContent = knob.kind === "number" ? knob.stops[stop].label : "";
  const missing = (number) => !ways[number] || ways[number].length > 0;
  input.setAttribute("aria-valuetext", `${knob.stops[stop].label}${missing(stop) ? ", not in this file" : ""}`);
  knob.stops.forEach((_, number) => {
    if (knob.kind === "number") {
      ticks.children[number].className = `${missing(number) ? "missing" : ""} ${number === own[place] ? "own" : ""}`;
    } else input.options[number].disabled = missing(number) && number !== stop;
  });
  why.textContent = isUsed ? "" : `The strategy ${strategyOf(settings)} has no such key.`;
});
const updateGrey = () => {
  const ways = knobs.flatMap((knob, place) => knob.stops.map((_, stop) => inTheWay(settings, place, stop)));
  const places = [...new Set(ways.filter(Boolean).flat())].sort((a, b) => a - b);
  const some = places.length ? [`Some were computed only with ${labels(places)} as in the scenario. `, setButton(places)] : [];
  const missing = some.length > 0 || ways.some((way) => !way);
  at("grey").hidden = !missing;
  at("grey").replaceChildren(`Grey values are not in this file${some.length ? " with these settings" : ""}. `, ...some);
};

const copy = async (button, id) => {
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(at(id).textContent);
    button.textContent = "Copied";
  } catch {
    window.getSelection().selectAllChildren(at(id));
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => { button.textContent = said; }, 2000);
};

const start = async () => {
  const isWide = window.innerWidth > 860;
  knobs.forEach((knob, place) => (knob.combined ? at("combined") : at("alone").querySelector("fieldset")).append(widgets[place].box));
  at("combined").hidden = !knobs.some((knob) => knob.combined);
  at("alone").hidden = knobs.every((knob) => knob.combined);
  at("alone").open = isWide || at("combined").hidden;
  at("back").addEventListener("click", () => change([...begin]));
  at("pin").addEventListener("click", () => {
    pinned = shown;
    compare();
    if (pinned) drawPoint(pinned.point, "pinned");
    if (shown) drawPoint(shown.point, "now");
  });
  at("unpin").addEventListener("click", () => {
    pinned = null;
    compare();
    if (shown) drawPoint(shown.point, "now");
  });
  for (const id of ["command", "scenario"]) at(`copy-${id}`).addEventListener("click", (event) => copy(event.currentTarget, id));
  const redraw = () => {
    if (shown) drawPoint(shown.point, "now");
    if (pinned) drawPoint(pinned.point, "pinned");
  };
  let waiting = 0;
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    if (window.innerWidth !== width) waiting = requestAnimationFrame(() => { width = window.innerWidth; redraw(); });
  });
  dark.addEventListener("change", redraw);
  update();
  updateGrey();
  const library = document.createElement("script");
  library.textContent = await unpack("plotly");
  document.head.append(library);
  await show();
};
start();

// The page of `clustersim serve`: its state is in its address; figures are painted for the theme and the width.
const NARROW_PX = 640;
const NARROW_PLOT_PX = 500;
const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (darkScheme.matches ? "dark" : "light")) === "dark";
const isNarrow = () => window.innerWidth < NARROW_PX;
const isNarrowPlot = (name) => {
  const width = document.getElementById(`plot-${name}`).clientWidth;
  return width ? width < NARROW_PLOT_PX : isNarrow();
};
const clientside = (window.dash_clientside ??= {});
const PIN = "pinned";

const fromAddress = () => {
  const search = new URLSearchParams(location.search);
  const settings = Object.fromEntries([...search].filter(([name]) => name !== PIN));
  return { settings, pinned: search.has(PIN) ? Object.fromEntries(new URLSearchParams(search.get(PIN))) : null };
};

const toAddress = ({ settings, pinned }) => {
  const search = new URLSearchParams(settings);
  if (pinned) search.set(PIN, new URLSearchParams(pinned).toString());
  const text = search.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
};

// The settings are the knobs that do not have the scenario's own value.
const settingsOf = (knobs, values) => Object.fromEntries(
  knobs.map((knob, place) => [knob, values[place]]).filter(([knob, value]) => value !== knob.now)
    .map(([knob, value]) => [knob.name, knob.texts[value]]),
);

// Turn the controls to settings, one after the other; `settling` is where they will be.
let settling = null;
const show = (knobs, values, settings) => {
  const wanted = knobs.map((knob) => {
    const place = knob.name in settings ? knob.texts.indexOf(settings[knob.name]) : knob.now;
    return place < 0 ? knob.now : place;
  });
  const changed = wanted.map((value, number) => [number, value]).filter(([number, value]) => value !== values[number]);
  if (!changed.length) return;
  settling = JSON.stringify(settingsOf(knobs, wanted));
  changed.forEach(([number, value]) => clientside.set_props({ knob: number }, { value }));
};

const state = (values, pins, unpins, resets, knobs, before) => {
  if (!before) {
    const now = fromAddress();
    show(knobs, values, now.settings);
    return { ...now, page: crypto.randomUUID(), turn: 0 };
  }
  const settings = settingsOf(knobs, values);
  if (settling) {
    if (JSON.stringify(settings) === settling) settling = null;
    return clientside.no_update;
  }
  const now = { ...before, settings };
  const trigger = clientside.callback_context.triggered_id;
  if (trigger === "pin") now.pinned = settings;
  if (trigger === "unpin") now.pinned = null;
  if (trigger === "reset") {
    now.settings = {};
    show(knobs, values, {});
  }
  if (JSON.stringify(now) === JSON.stringify(before)) return clientside.no_update;
  toAddress(now);
  return { ...now, turn: before.turn + 1 };
};

const labels = (values, knobs) =>
  clientside.callback_context.outputs_list.map(({ id }) => knobs[id.shown].labels[values[id.shown]]);

const NAMES = ["scaling", "breakdown", "timeline"];
const draw = (figures) => {
  if (!figures) return [...NAMES.flatMap(() => [{}, {}, "", "", ""]), ...NAMES.map(() => true)];
  const theme = THEMES[isDark() ? "dark" : "light"];
  const parts = NAMES.flatMap((name) => {
    const figure = figures[name];
    if (!figure) return [{}, {}, "", "", ""];
    const { data, layout } = drawing(figure, undefined, isNarrowPlot(name), theme);
    return [{ data, layout }, { height: `${layout.height}px` }, figure.title, figure.subtitle, figure.note];
  });
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
  return [...parts, ...NAMES.map((name) => !figures[name])];
};

const copy = async (clicks, text) => {
  await navigator.clipboard.writeText(text);
  return "Copied";
};

const looks = () => JSON.stringify([isDark(), ...NAMES.map(isNarrowPlot)]);
const changed = () => clientside.set_props("window", { data: looks() });
let before = "";
darkScheme.addEventListener("change", changed);
window.addEventListener("resize", () => {
  const now = looks();
  if (now !== before) changed();
  before = now;
});

clientside.whatIf = { state, labels, draw, copy };

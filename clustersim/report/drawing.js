// Drawing: all figures in the window at once, then those near it, one at a time; the others when the browser is idle. A
// figure is drawn again when its appearance changes.
let canDraw = false;

const draw = (panel) => {
  const place = byId(panel, "plot");
  const width = printing ? PRINT_PX : place.clientWidth;
  const narrow = width < NARROW_PX && !printing && window.innerWidth < NARROW_PX;
  const { data, layout } = drawing(panel.figure, width, narrow, page.themes[isDark() ? "dark" : "light"]);
  Plotly.react(place, data, layout, { responsive: false, displaylogo: false, showSendToCloud: false, displayModeBar: false });
  panel.drawnWidth = width;
  panel.stale = false;
  cardOf(panel).dataset.drawn = "yes";
  showTable(panel);
};

let busy = false;
const toDraw = () => panels.filter((panel) => panel.stale && panel.isOpen);
const away = (panel) => {
  const box = byId(panel, "plot").getBoundingClientRect();
  return Math.max(box.top - window.innerHeight, -box.bottom);
};
const drawNext = () => {
  const near = toDraw().map((panel) => [away(panel), panel]).filter(([far]) => far < AHEAD_PX);
  busy = near.length > 0;
  if (busy) {
    const inWindow = near.filter(([far]) => far < 0);
    (inWindow.length ? inWindow : near.slice(0, 1)).forEach(([, panel]) => draw(panel));
    setTimeout(drawNext, 0);
  } else {
    document.body.dataset.drawn = toDraw().length ? "near" : "all";
    drawWhenIdle();
  }
};
const IDLE_MS = 300;
const whenIdle = (work) => (window.requestIdleCallback ? requestIdleCallback(work, { timeout: IDLE_MS }) : setTimeout(work, IDLE_MS));
let waitsForIdle = false;
const drawWhenIdle = () => {
  if (waitsForIdle || !toDraw().length) return;
  waitsForIdle = true;
  whenIdle(() => {
    waitsForIdle = false;
    if (busy) return;
    const [next] = toDraw().sort((one, other) => away(one) - away(other));
    if (next) draw(next);
    drawNext();
  });
};
const drawNear = () => canDraw && !busy && drawNext();
const redraw = (which) => {
  panels.filter(which).forEach((panel) => { panel.stale = true; });
  drawNear();
};

// Paper has all figures, at its own width, and what is folded too.
const print = (now) => {
  if (printing === now || !canDraw) return;
  printing = now;
  panels.forEach(settle);
  if (printing) panels.filter((panel) => panel.isOpen).forEach(draw);
  else drawNear();
};

// The keys + - left right and 0 zoom the axes across of the figure that has the focus.
const ZOOMS = { "+": [0.6, 0], "=": [0.6, 0], "-": [1 / 0.6, 0], ArrowLeft: [1, -0.2], ArrowRight: [1, 0.2] };
const zoom = (place, key) => {
  const axes = Object.keys(place._fullLayout || {}).filter((name) => /^xaxis\d*$/.test(name));
  const update = {};
  for (const name of axes) {
    if (key === "0") {
      update[`${name}.autorange`] = place.layout[name]?.range === undefined;
      continue;
    }
    const [from, to] = place._fullLayout[name].range.map(Number);
    const [factor, shift] = ZOOMS[key];
    const middle = (from + to) / 2 + shift * (to - from);
    update[`${name}.range`] = [middle - (factor * (to - from)) / 2, middle + (factor * (to - from)) / 2];
  }
  return Plotly.relayout(place, update);
};

const wireDrawing = () => {
  for (const panel of panels) {
    const choice = byId(panel, "choice");
    if (choice) choice.addEventListener("change", () => {
      panel.variant = Number(choice.value);
      panel.figure = panel.variants[panel.variant];
      settle(panel);
      drawNear();
    });
    byId(panel, "fold").addEventListener("click", () => {
      panel.opened = !panel.isOpen;
      settle(panel);
      drawNear();
    });
    byId(panel, "plot").addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !panel.figure || panel.stale) return;
      if (event.key === "0") draw(panel);
      else if (event.key in ZOOMS) zoom(byId(panel, "plot"), event.key);
      else return;
      event.preventDefault();
    });
  }
  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      if (!printing) redraw((panel) => panel.isOpen && byId(panel, "plot").clientWidth !== panel.drawnWidth);
    });
  });
  dark.addEventListener("change", () => redraw(() => true));
  window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  const observer = new IntersectionObserver(drawNear, { rootMargin: `${AHEAD_PX}px 0px` });
  panels.forEach((panel) => observer.observe(byId(panel, "plot")));
};

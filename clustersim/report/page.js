// What all parts of the script share: the elements, the packed data, and the figure of each panel.
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const page = read("page");
const panels = page.panels.map((panel) => ({ ...panel, figure: null, variant: 0, opened: false, stale: true }));
const NARROW_PX = 640;
const PRINT_PX = 690;
const AHEAD_PX = 500;
let chosen = page.first;
let printing = false;

const byId = (panel, what) => document.getElementById(`${what}-${panel.name}`);
const cardOf = (panel) => document.getElementById(panel.name);

const unpacked = new Map();
const unpackJson = (name) => {
  if (!unpacked.has(name)) unpacked.set(name, unpack(name).then(JSON.parse));
  return unpacked.get(name);
};

const whyFolded = (panel) => {
  if (panel.figure) return panel.figure.quiet;
  if (page.runs[chosen].kept) return "No data for this run.";
  const kept = page.runs.filter((run) => run.kept).length;
  return `Not in this page, which has the figures of ${kept} of ${page.runs.length} runs.`;
};

// Write the texts of a panel for its figure, and fold it to one line where that says nothing.
const settle = (panel) => {
  const { figure } = panel;
  const reason = whyFolded(panel);
  const folded = Boolean(reason) && !(figure && (panel.opened || printing));
  const button = byId(panel, "fold");
  cardOf(panel).classList.toggle("folded", folded);
  byId(panel, "title").textContent = folded ? panel.heading || figure.title : figure.title;
  byId(panel, "under").textContent = folded ? reason : figure.subtitle;
  byId(panel, "note").textContent = figure ? figure.note : "";
  byId(panel, "body").hidden = folded;
  button.hidden = !(figure && reason);
  button.textContent = folded ? "Show" : "Fold";
  button.setAttribute("aria-expanded", String(!folded));
  const place = byId(panel, "plot");
  if (figure) {
    place.style.setProperty("--tall", `${figure.layout.height}px`);
    place.style.setProperty("--tall-narrow", `${figure.narrow.height || figure.layout.height}px`);
  }
  panel.stale = true;
  panel.isOpen = !folded;
};

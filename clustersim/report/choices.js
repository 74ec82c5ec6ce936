// What the reader chooses: the run, the theme, the order of the table. The run is in the address of the page.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => !printing && (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const runChoice = document.getElementById("run");

const address = () => {
  const parts = decodeURIComponent(location.hash.slice(1)).split(";");
  const slug = (parts.find((part) => part.startsWith("run=")) || "").slice(4);
  return { place: parts.find((part) => part && !part.includes("=")) || "", run: page.runs.findIndex((run) => run.slug === slug) };
};

const writeAddress = (place) => {
  if (page.runs.length < 2) return;
  const run = `run=${page.runs[chosen].slug}`;
  history.replaceState(null, "", `#${place ? `${place};` : ""}${run}`);
};

const markRun = () => {
  if (!runChoice) return;
  runChoice.value = String(chosen);
  document.getElementById("previous").disabled = chosen === 0;
  document.getElementById("next").disabled = chosen === page.runs.length - 1;
  document.querySelectorAll("tr[data-run]").forEach((row) => {
    if (Number(row.dataset.run) === chosen) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  });
};

// Show the figures and the cards of the chosen run.
const showRun = async () => {
  const number = chosen;
  const run = page.runs[number];
  const [figures, cards] = await Promise.all([run.kept ? unpackJson(`run-${number}`) : {}, unpackJson("cards")]);
  if (number !== chosen) return;
  for (const panel of panels.filter((one) => one.ofRun)) {
    panel.figure = figures[panel.name] || null;
    settle(panel);
  }
  document.querySelectorAll(".of-run").forEach((place) => { place.innerHTML = cards[number][place.dataset.card]; });
  document.body.dataset.run = run.slug;
  drawNear();
};

const choose = (number, place = address().place) => {
  if (number < 0 || number >= page.runs.length) return;
  chosen = number;
  markRun();
  writeAddress(place);
  if (canDraw) showRun();
};

const goTo = (place) => {
  const target = place && document.getElementById(place);
  if (target) target.scrollIntoView();
};

const fromAddress = () => {
  const { place, run } = address();
  if (run >= 0 && run !== chosen) choose(run, place);
  else if (run < 0) writeAddress(place);
  goTo(place);
};

// Sort the table of runs by a column: first the largest, then the smallest.
const sortBy = (heading) => {
  const row = heading.parentElement;
  const column = [...row.children].indexOf(heading);
  const falls = heading.getAttribute("aria-sort") !== "descending";
  [...row.children].forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
  const body = heading.closest("table").tBodies[0];
  const key = (line) => {
    const cell = line.children[column];
    return "value" in cell.dataset && cell.classList.contains("number") ? Number(cell.dataset.value) : cell.textContent;
  };
  const compare = (one, other) => {
    if (typeof one === "number" && typeof other === "number") return one - other;
    if (typeof one === "number" || typeof other === "number") return typeof one === "number" ? 1 : -1;
    return one.localeCompare(other, "en", { numeric: true });
  };
  const lines = [...body.rows].sort((one, other) => (falls ? -1 : 1) * compare(key(one), key(other)));
  body.append(...lines);
};

const wireMenu = () => {
  const menu = document.getElementById("menu");
  const openMenu = (open) => {
    menu.setAttribute("aria-expanded", String(open));
    document.body.classList.toggle("menu-open", open);
  };
  menu.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") !== "true"));
  document.getElementById("contents").addEventListener("click", () => openMenu(false));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || menu.getAttribute("aria-expanded") !== "true") return;
    openMenu(false);
    menu.focus();
  });
};

const wireChoices = () => {
  const themeChoice = document.getElementById("theme");
  themeChoice.value = document.documentElement.dataset.theme || "auto";
  themeChoice.addEventListener("change", () => {
    if (themeChoice.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = themeChoice.value;
    try { localStorage.setItem("clustersim-theme", themeChoice.value); } catch { /* no storage: for this visit only */ }
    redraw(() => true);
  });
  if (document.getElementById("menu")) wireMenu();
  document.querySelectorAll("button.sort").forEach((button) => button.addEventListener("click", () => sortBy(button.parentElement)));
  if (!runChoice) return;
  runChoice.addEventListener("change", () => choose(Number(runChoice.value)));
  document.getElementById("previous").addEventListener("click", () => choose(chosen - 1));
  document.getElementById("next").addEventListener("click", () => choose(chosen + 1));
  document.querySelectorAll("tr[data-run]").forEach((row) => row.addEventListener("click", () => choose(Number(row.dataset.run))));
  window.addEventListener("hashchange", fromAddress);
};

// Mark in the contents what is in the window.
const followContents = () => {
  const links = new Map([...document.querySelectorAll("#contents a")].map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    entries.forEach((entry) => seen[entry.isIntersecting ? "add" : "delete"](entry.target.id));
    let found = false;
    links.forEach((link, id) => {
      const now = !found && seen.has(id) && id !== "content";
      found ||= now;
      if (now) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  }, { rootMargin: "-60px 0px -50% 0px" });
  links.forEach((link, id) => id !== "content" && observer.observe(document.getElementById(id)));
};

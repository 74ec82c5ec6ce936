"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const panels = read("panels").map((name) => ({ name }));
  const themes = read("themes");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const NARROW_PX = 640;
  const PRINT_PX = 690;
  const AHEAD_PX = 500;
  let printing = false;

  const byId = (panel, what) => document.getElementById(`${what}-${panel.name}`);
  const variantsOf = (panel) => (panel.variants ??= read(`data-${panel.name}`));

  const paint = (value, theme) => {
    if (typeof value === "string") return value[0] === "@" ? theme[value.slice(1)] : value;
    if (Array.isArray(value)) return value.map((item) => paint(item, theme));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item, theme)]));
  };

  const merge = (base, over) => {
    const result = { ...base };
    for (const [key, value] of Object.entries(over)) {
      const both = [result[key], value].every((one) => one && typeof one === "object" && !Array.isArray(one));
      result[key] = both ? merge(result[key], value) : value;
    }
    return result;
  };

  const config = (panel, narrow) => ({
    responsive: false,
    displaylogo: false,
    showSendToCloud: false,
    displayModeBar: narrow || printing ? false : "hover",
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    toImageButtonOptions: { filename: panel, scale: 2 },
  });

  const draw = (panel) => {
    const place = byId(panel, "plot");
    const variant = variantsOf(panel)[panel.chosen || 0];
    const width = printing ? PRINT_PX : place.clientWidth;
    const narrow = width < NARROW_PX && !printing && window.innerWidth < NARROW_PX;
    const theme = themes[dark.matches && !printing ? "dark" : "light"];
    let layout = { ...variant.layout, width };
    if (narrow) layout = merge({ ...layout, dragmode: false }, variant.narrow);
    byId(panel, "title").textContent = variant.title;
    byId(panel, "under").textContent = variant.subtitle;
    byId(panel, "note").textContent = variant.note;
    Plotly.react(place, paint((narrow && variant.narrow_traces) || variant.traces, theme), paint(layout, theme), config(panel.name, narrow));
    panel.drawnWidth = width;
    panel.stale = false;
    document.getElementById(panel.name).dataset.drawn = "yes";
  };

  // A figure is drawn when it comes near the window, and again when its appearance changes. One figure at a time,
  // those in the window first, so that the page stays responsive.
  let drawing = false;
  const away = (panel) => {
    const box = byId(panel, "plot").getBoundingClientRect();
    return Math.max(box.top - window.innerHeight, -box.bottom);
  };
  const drawNext = () => {
    const near = panels.filter((panel) => panel.stale).map((panel) => [away(panel), panel]).filter(([far]) => far < AHEAD_PX);
    drawing = near.length > 0;
    if (drawing) {
      draw((near.find(([far]) => far < 0) || near[0])[1]);
      setTimeout(drawNext, 0);
    } else {
      document.body.dataset.drawn = panels.some((panel) => panel.stale) ? "near" : "all";
    }
  };
  const drawNear = () => drawing || drawNext();
  const drawAll = () => panels.forEach(draw);
  const redraw = (which) => {
    panels.filter(which).forEach((panel) => { panel.stale = true; });
    drawNear();
  };

  for (const panel of panels) {
    panel.stale = true;
    const choice = byId(panel, "choice");
    if (!choice) continue;
    choice.addEventListener("change", () => {
      panel.chosen = Number(choice.value);
      draw(panel);
      drawNear();
    });
  }

  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      if (!printing) redraw((panel) => byId(panel, "plot").clientWidth !== panel.drawnWidth);
    });
  });
  dark.addEventListener("change", () => redraw(() => true));
  const print = (now) => {
    if (printing === now) return;
    printing = now;
    if (printing) drawAll();
    else redraw(() => true);
  };
  window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));

  drawNext();
  const observer = new IntersectionObserver(drawNear, { rootMargin: `${AHEAD_PX}px 0px` });
  panels.forEach((panel) => observer.observe(byId(panel, "plot")));
})();

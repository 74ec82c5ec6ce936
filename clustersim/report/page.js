"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const panels = read("panels");
  const themes = read("themes");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const NARROW_PX = 640;
  const PRINT_PX = 690;
  let printing = false;

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
    const place = document.getElementById(`plot-${panel.name}`);
    const variant = panel.variants[panel.chosen || 0];
    const width = printing ? PRINT_PX : place.clientWidth;
    const narrow = width < NARROW_PX && !printing && window.innerWidth < NARROW_PX;
    const theme = themes[dark.matches && !printing ? "dark" : "light"];
    let layout = { ...variant.layout, width };
    if (narrow) layout = merge({ ...layout, dragmode: false }, variant.narrow);
    document.getElementById(`title-${panel.name}`).textContent = variant.title;
    document.getElementById(`under-${panel.name}`).textContent = variant.subtitle;
    document.getElementById(`note-${panel.name}`).textContent = variant.note;
    Plotly.react(place, paint((narrow && variant.narrow_traces) || variant.traces, theme), paint(layout, theme), config(panel.name, narrow));
    panel.drawnWidth = width;
  };

  const drawAll = () => panels.forEach(draw);

  for (const panel of panels) {
    const choice = document.getElementById(`choice-${panel.name}`);
    if (!choice) continue;
    choice.addEventListener("change", () => {
      panel.chosen = Number(choice.value);
      draw(panel);
    });
  }

  let waiting = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      if (!printing) panels.filter((p) => document.getElementById(`plot-${p.name}`).clientWidth !== p.drawnWidth).forEach(draw);
    });
  });
  dark.addEventListener("change", drawAll);
  const print = (now) => {
    if (printing === now) return;
    printing = now;
    drawAll();
  };
  window.matchMedia("print").addEventListener("change", (event) => print(event.matches));
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));

  // One figure at a time, so that the page can be read and scrolled from the first one on.
  const drawFrom = (number) => {
    if (number === panels.length) {
      document.body.dataset.drawn = "yes";
      return;
    }
    if (panels[number].drawnWidth === undefined) draw(panels[number]);
    setTimeout(drawFrom, 0, number + 1);
  };
  drawFrom(0);
})();

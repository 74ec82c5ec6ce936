// Saving: a figure as SVG and PNG with its title on white, its numbers as CSV and as a table.
const SAVED_PX = 1000;
const MOST_ROWS = 500;
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

const plain = (value) => {
  if (typeof value !== "string") return value;
  const text = value.replace(/<br\s*\/?>/g, "; ").replace(/<[^>]*>/g, "");
  return text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&").replace(/\u202f/g, " ");
};
const at = (values, number) => (Array.isArray(values) ? values[number] : values);

const axisName = (letter, id) => (id && id.length > 1 ? `${letter}axis${id.slice(1)}` : `${letter}axis`);

// What a column of an axis is called, and what its numbers mean where the axis names its rows.
const axisOf = ({ figure, rows }, trace, letter) => {
  const axis = figure.layout[axisName(letter, trace[`${letter}axis`])] || {};
  const partner = axis.matches ? null : Object.entries(figure.layout).find(([name, other]) =>
    name.startsWith(`${letter}axis`) && other.matches === (trace[`${letter}axis`] || letter) && other.title?.text);
  const title = axis.title?.text || partner?.[1].title.text || "";
  const named = Array.isArray(axis.ticktext) && axis.type !== "log";
  const rowOf = (value) => {
    if (!named || typeof value !== "number") return value;
    const row = axis.tickvals.findIndex((tick) => Math.abs(tick - value) < 0.5);
    return row < 0 ? value : axis.ticktext[row];
  };
  return { title: plain(title) || (named ? rows || "row" : letter), isNamed: named, rowOf };
};

// Rows of cells by heading. Traces that tell of the same row, each another quantity, share a line.
const columns = () => {
  const names = [];
  const rows = [];
  const last = new Map();
  const isTaken = (row, cells, key) => Object.keys(cells).some((name) => name in row && name !== "about" && !(name in key));
  const add = (key, cells) => {
    Object.keys({ ...key, ...cells }).forEach((name) => names.includes(name) || names.push(name));
    const id = JSON.stringify(key);
    const row = last.get(id);
    if (row && !isTaken(row, cells, key)) {
      const about = [row.about, cells.about].filter((text, place, all) => text && all.indexOf(text) === place).join("; ");
      Object.assign(row, cells, about ? { about } : {});
      return;
    }
    rows.push({ ...key, ...cells });
    last.set(id, rows.at(-1));
  };
  const table = () => {
    const ordered = [...names.filter((name) => name !== "about"), ...names.filter((name) => name === "about")];
    return { headings: ordered, rows: rows.map((cells) => ordered.map((name) => cells[name] ?? null)) };
  };
  return { add, table };
};

const addHeatmap = (found, panel, trace) => {
  const x = axisOf(panel, trace, "x");
  const y = axisOf(panel, trace, "y");
  const title = plain(trace.colorbar?.title?.text ?? trace.colorbar?.title ?? "") || "value";
  trace.z.forEach((line, row) => line.forEach((value, column) => {
    if (value === null) return;
    const name = at(at(trace.customdata, row), column);
    const of = typeof name === "string" ? plain(name) : plain(y.rowOf(at(trace.y, row) ?? row));
    found.add({ [y.title]: of, [x.title]: plain(x.rowOf(at(trace.x, column) ?? column)) }, { [title]: value });
  }));
};

const addPoints = (found, panel, trace, hasNames) => {
  const [x, y] = [axisOf(panel, trace, "x"), axisOf(panel, trace, "y")];
  const across = trace.orientation === "h" || (y.isNamed && !x.isNamed);
  const [long, short] = across ? [x, y] : [y, x];
  const length = Math.max(...[trace.x, trace.y].map((values) => values?.length || 0));
  for (let number = 0; number < length; number += 1) {
    const places = { x: at(trace.x, number), y: at(trace.y, number) };
    if (places.x === null || places.y === null) continue;
    const own = at(trace.customdata, number);
    if (typeof own === "number") places.y = own;
    const [value, row] = across ? [places.x, places.y ?? number] : [places.y, places.x ?? number];
    const key = { ...(hasNames ? { series: plain(trace.name || "") } : {}), [short.title]: plain(short.rowOf(row)) };
    const about = plain(at(trace.hovertext, number));
    found.add(key, { ...valueCells(trace, long, value, number), ...errorCells(trace, { x, y }, places, number), ...(about ? { about } : {}) });
  }
};

// The value of a point, or both ends of a bar that does not begin at zero.
const valueCells = (trace, axis, value, number) => {
  const base = at(trace.base, number);
  if (base === undefined) return { [axis.title]: plain(axis.rowOf(value)) };
  return { [`from: ${axis.title}`]: base, [`to: ${axis.title}`]: base + value };
};

const errorCells = (trace, axes, places, number) => {
  const cells = {};
  for (const letter of ["x", "y"]) {
    const error = trace[`error_${letter}`];
    if (!error?.array || error.visible === false) continue;
    cells[`${axes[letter].title}, low`] = places[letter] - (at(error.arrayminus, number) ?? error.array[number]);
    cells[`${axes[letter].title}, high`] = places[letter] + error.array[number];
  }
  return cells;
};

// The numbers of a figure: its own table, or one made of its traces and the titles of its axes.
const tableOf = (panel) => {
  const { figure } = panel;
  if (figure.table) return { headings: figure.table.headings.map(plain), rows: figure.table.rows.map((row) => row.map(plain)) };
  const found = columns();
  const drawn = figure.traces.filter((trace) => trace.mode !== "text" && trace.visible !== false);
  const told = drawn.filter((trace) => trace.hoverinfo !== "skip");
  const used = told.length ? told : drawn;
  const hasNames = used.some((trace) => trace.name);
  used.forEach((trace) => (trace.type === "heatmap" ? addHeatmap(found, panel, trace) : addPoints(found, panel, trace, hasNames)));
  return found.table();
};

const csvOf = (panel) => {
  const { headings, rows } = tableOf(panel);
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [headings, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
};

const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const wrapped = (text, font, width) => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = font;
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (!lines.at(-1) || pen.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
};

const runOf = (panel) => (panel.ofRun ? page.runs[chosen] : null);

// The figure as an SVG document in light colours, with title and subtitle above and its origin below.
const svgOf = async (panel) => {
  const { figure } = panel;
  const theme = page.themes.light;
  const { data, layout } = drawing(figure, SAVED_PX - 32, false, theme);
  const size = { width: layout.width, height: layout.height };
  const uri = await Plotly.toImage({ data, layout, config: {} }, { format: "svg", ...size });
  const inner = decodeURIComponent(uri.slice(uri.indexOf(",") + 1));
  const texts = [];
  let y = 12;
  const write = (text, px, weight, colour) => {
    if (!text) return;
    for (const line of wrapped(text, `${weight} ${px}px ${FONT}`, SAVED_PX - 40)) {
      y += px * 1.35;
      texts.push(`<text x="20" y="${y.toFixed(1)}" font-size="${px}" font-weight="${weight}" fill="${colour}">${escaped(line)}</text>`);
    }
  };
  write(figure.title, 19, 600, theme.ink);
  write(figure.subtitle, 14, 400, theme.muted);
  const top = y + 14;
  y = top + size.height + 2;
  write(figure.note, 12, 400, theme.muted);
  write([page.name, runOf(panel)?.label, `clustersim ${page.version}`].filter(Boolean).join(" · "), 12, 400, theme.muted);
  const height = Math.ceil(y + 14);
  return {
    width: SAVED_PX,
    height,
    text: `<svg xmlns="http://www.w3.org/2000/svg" width="${SAVED_PX}" height="${height}" viewBox="0 0 ${SAVED_PX} ${height}" ` +
      `font-family="${FONT}"><rect width="100%" height="100%" fill="${theme.surface}"/>${texts.join("")}` +
      `${inner.replace("<svg", `<svg x="16" y="${top.toFixed(1)}"`)}</svg>`,
  };
};

const pngOf = async (panel) => {
  const svg = await svgOf(panel);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg.text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * svg.width;
  canvas.height = 2 * svg.height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
};

const MAKERS = {
  svg: async (panel) => new Blob([(await svgOf(panel)).text], { type: "image/svg+xml" }),
  png: pngOf,
  csv: (panel) => new Blob([csvOf(panel)], { type: "text/csv;charset=utf-8" }),
};

const save = async (panel, kind) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await MAKERS[kind](panel));
  link.download = `${[page.name, panel.name, runOf(panel)?.slug].filter(Boolean).join("-")}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

const fillTable = (place, panel) => {
  const { headings, rows } = tableOf(panel);
  const numeric = headings.map((_, column) => rows.every((row) => row[column] === null || typeof row[column] === "number"));
  const cell = (tag, value, column) => {
    const made = document.createElement(tag);
    made.className = numeric[column] ? "number" : "words";
    made.textContent = typeof value === "number" ? String(Number(value.toPrecision(6))) : value ?? "";
    return made;
  };
  const table = document.createElement("table");
  const caption = table.createCaption();
  const cut = rows.length > MOST_ROWS ? ` The first ${MOST_ROWS} of ${rows.length} rows; the CSV file has all.` : "";
  caption.textContent = `${panel.figure.subtitle}${cut}`;
  table.createTHead().insertRow().append(...headings.map((text, column) => cell("th", text, column)));
  const body = table.createTBody();
  rows.slice(0, MOST_ROWS).forEach((row) => body.insertRow().append(...row.map((value, column) => cell("td", value, column))));
  place.replaceChildren(table);
};

// The table is made when the reader asks for it, and follows the choice of run.
const showTable = (panel) => {
  const place = byId(panel, "data");
  if (!place.hidden) fillTable(place, panel);
};

const wireSaving = () => {
  for (const panel of panels) {
    const card = cardOf(panel);
    card.querySelectorAll("button[data-save]").forEach((button) => {
      button.addEventListener("click", () => save(panel, button.dataset.save));
    });
    const button = card.querySelector("button[data-table]");
    button.addEventListener("click", () => {
      const place = byId(panel, "data");
      place.hidden = !place.hidden;
      button.setAttribute("aria-expanded", String(!place.hidden));
      showTable(panel);
    });
  }
};
